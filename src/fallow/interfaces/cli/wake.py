"""`fallow wake`: give parked jobs their GPUs back, or let what was stopped in a cluster run again."""

import argparse
from typing import assert_never

from fallow.core.api import VERSION
from fallow.core.cluster_names import names_cluster
from fallow.core.errors import FallowError, NotEnoughGpus, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.parked import ParkedJob, ParkStage
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.units import duration_for_people, printable
from fallow.engine.allocate.subjects import TO_WAKE, JobSubject, NamedOwner, SomeGpus, job_subjects
from fallow.engine.client.daemon_client import DaemonClient
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.park.alone import NoRoom, wake_alone
from fallow.engine.park.wishes import WakeWish
from fallow.interfaces.cli.options import Parser, add_json
from fallow.interfaces.render.as_json import as_text, parked_facts
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Wake jobs that a rule has parked: their memory goes back to their GPUs, and they
go on where they were. Wait until they are back. The user of a job may wake it,
root, and operators. `fallow status` lists the parked jobs.

What fallow stopped in a Kubernetes cluster gets back the replicas that it had,
with your rights there, by KUBECONFIG, ~/.kube/config or the pod you are in.

exit codes: 0 woken, or nothing of that is parked; 1 something of a cluster was
not woken; 2 there is no such GPU, process or user; 75 there is too little free
memory on the GPU, or somebody has claimed it; 77 it is another user's"""
EXAMPLES = """\
  fallow wake mine              all parked jobs of yours
  fallow wake 3                 those of GPU 3
  fallow wake pid:12345
  fallow wake notebook:train
  fallow wake --list            what fallow has stopped in the cluster
  fallow wake deployment:ml/llama"""

_LOOK_AGAIN_S = 0.2
_WITHIN_S = 600.0
Woken = list[tuple[ParkedJob, Outcome]]


def add_options(made: Parser) -> None:
    """Add the options of `fallow wake`."""
    made.usage = "fallow wake [OPTIONS] SUBJECT…"
    made.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="a GPU, pid:PID, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine or all; or of a cluster "
        "deployment:NAMESPACE/NAME, or statefulset:…, replicaset:…, job:…, raycluster:…, rayjob:…, notebook:…, "
        "inferenceservice:…",
    )
    made.add_argument("--list", action="store_true", help="print what fallow has stopped in the cluster")
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Wake the jobs: those of a cluster there, others through the daemon, or alone where none runs."""
    texts = list(dict.fromkeys(args.subjects))
    if args.list == bool(texts):
        raise WrongUsage(
            "--list takes no SUBJECT" if texts else "SUBJECT is missing", "write it as: fallow wake mine"
        )
    if args.list or any(map(names_cluster, texts)):
        from fallow.interfaces.cli import cluster_wake

        if args.list:
            return cluster_wake.show_stopped(world, voice, as_json=args.json)
        return cluster_wake.wake(texts, world, as_json=args.json)
    daemon = world.daemon(voice.detail)
    woken: Woken = []
    meant = job_subjects(texts, TO_WAKE, world)
    for subject, whom in zip(texts, meant, strict=True):
        through = _by_the_daemon(daemon, world, subject)
        done = through or _alone(world, voice, whom)
        if not done:
            seen = ", as far as can be seen without a daemon" if through is None else ""
            voice.note(printable(f"{_none_is_parked(whom, subject)}{seen}"))
        woken += done
    if args.json:
        rows = [{**parked_facts(job), "woken": outcome.ok, "because": outcome.words} for job, outcome in woken]
        print(as_text({"version": VERSION, "jobs": rows}))
    else:
        for job, outcome in woken:
            if outcome.ok:
                print(printable(f"{job.subject} was woken: {outcome.words}"))
    failed = [f"{job.subject} was not woken: {outcome.words}" for job, outcome in woken if not outcome.ok]
    if failed:
        raise NotEnoughGpus(printable("; ".join(failed)))
    return 0


def _by_the_daemon(daemon: DaemonClient, world: World, subject: str) -> Woken | None:
    """Have the daemon wake the jobs, and wait until they are back; None if none answers."""
    answered = daemon.wake(subject)
    if answered is None:
        return None
    done: Woken = [(job, Outcome(False, why_not)) for job, why_not in answered if why_not is not None]
    waited_for = {job.first: job for job, why_not in answered if why_not is None}
    began_s = world.clock.monotonic_s()
    while waited_for:
        passed_s = world.clock.monotonic_s() - began_s
        found = daemon.parked()
        if found is None:
            raise FallowError("the daemon has ended meanwhile", "fallow status says what is parked")
        now = {job.first: job for job in found}
        for first, job in list(waited_for.items()):
            there = now.get(first)
            if there is None or there.stage is ParkStage.PARKED:
                back = Outcome(True, f"it is back, after {passed_s:.1f} s")
                done.append((job, back if there is None else Outcome(False, there.trouble or "it stays parked")))
                del waited_for[first]
        if waited_for and passed_s >= _WITHIN_S:
            raise FallowError(
                f"not back within {duration_for_people(_WITHIN_S)}; it is still being woken", "see: fallow status"
            )
        if waited_for:
            world.clock.sleep(_LOOK_AGAIN_S)
    return done


def _none_is_parked(subject: JobSubject, typed: str) -> str:
    match subject:
        case Everything():
            return "no job is parked"
        case OneUser(name=name):
            return f"no job of {'yours' if typed == 'mine' else name} is parked"
        case OneProcess(pid=pid):
            return f"process {pid} is not parked"
        case SomeGpus():
            return f"no job of {subject} is parked"
        case NamedOwner():
            return f"no {subject} is parked"
    assert_never(subject)


def _alone(world: World, voice: Stderr, subject: JobSubject) -> Woken:
    wish = WakeWish(subject, world.user, may_wake_all=world.viewer.everything)
    with open_run(world, voice.note) as alone:
        try:
            return wake_alone(alone, wish)
        except NoRoom as error:
            raise NotEnoughGpus(str(error)) from None
