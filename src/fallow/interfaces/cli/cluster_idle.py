"""`fallow idle slurm:1234`: whether jobs of the cluster have been idle for so long. What cannot be told is no yes."""

import argparse

from fallow.core.api import VERSION
from fallow.core.cluster_names import cluster_target
from fallow.core.cluster_view import ClusterView, GpuState, JobLine
from fallow.core.errors import WrongUsage
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.units import duration_for_people, printable
from fallow.core.value import fields, value
from fallow.engine.machine.world import World
from fallow.interfaces.cli.cluster_status import cluster_of, tell_if_old
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

_WORDS = {True: "idle", False: "in use", None: "cannot be told"}
_EXIT_CODES = {True: 0, False: 1, None: 75}


@value
class JobAnswer:
    """Whether one job is idle, None if that cannot be told, and why."""

    job: str
    idle: bool | None
    activity: str
    idle_s: float
    because: str


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon, print the answer for each job, and return the exit code for all of them."""
    if args.unless:
        raise WrongUsage("--unless is about the processes of this machine", "leave it out")
    target = cluster_target(args.subject)
    view = cluster_of(world, voice, args.subject, alone=args.alone)
    is_old = tell_if_old(view, world.clock.wall_s(), voice)
    answers = [_answer(job, args.for_s, view, is_old=is_old) for job in view.jobs]
    together = _together(answers)
    nothing = "holds no GPU"
    if not answers and (view.troubles or is_old or not _is_there(target, view)):
        # A job that ended and a name that was mistyped look the same, so that is no yes; nor is a blind look.
        together, nothing = None, _doubt(view, is_old=is_old)
    elif not answers and args.for_s:
        together, nothing = None, "holds no GPU now; since when is not known"
    if args.json:
        jobs = [{name: getattr(each, name) for name in fields(JobAnswer)} for each in answers]
        unknown = {"idle": nothing if not answers else _first_doubt(answers)} if together is None else {}
        facts = {"version": VERSION, "idle": together, "asked_for_s": args.for_s, "jobs": jobs, "unknown": unknown}
        print(as_text(facts))
    elif not answers:
        print(printable(f"{args.subject}: {_WORDS[together]}: {nothing}"))
    else:
        for each in answers:
            short = each.idle is False and each.activity == GpuState.IDLE
            word = f"not for {duration_for_people(args.for_s)} yet" if short else _WORDS[each.idle]
            print(printable(f"{each.job}: {word}: {each.because}"))
    return _EXIT_CODES[together]


def _is_there(target: OneClusterJob | ClusterPart, view: ClusterView) -> bool:
    """Return whether something without a job on a GPU is known to exist: the engine lists nodes and partitions."""
    if isinstance(target, ClusterPart) and target.kind == "partition":
        return any(target.name in node.labels.get("partition", "").split(",") for node in view.nodes)
    return isinstance(target, ClusterPart) and target.kind == "node" and bool(view.nodes)


def _doubt(view: ClusterView, *, is_old: bool) -> str:
    """Return why it cannot be told of what no job was found for."""
    if not view.jobs_listed:
        return view.troubles[0] if view.troubles else "its jobs could not be listed"
    return "held no GPU at the last look, which was long ago" if is_old else "holds no GPU now, or does not exist"


def _first_doubt(answers: list[JobAnswer]) -> str:
    return next((f"{each.job}: {each.because}" for each in answers if each.idle is None), "")


def _answer(job: JobLine, for_s: float, view: ClusterView, *, is_old: bool) -> JobAnswer:
    idle: bool | None = None
    because = job.because
    if view.troubles:
        because = f"it could not be read: {view.troubles[0]}"
    elif is_old:
        because = f"the last look was long ago; then: {because}"
    elif job.activity is GpuState.FILLED:
        idle = None if for_s else True
        because = f"{because}; since when nobody else used it is not known" if for_s else because
    elif job.activity is GpuState.BUSY:
        idle = False
    elif job.activity is GpuState.IDLE:
        idle = job.idle_s >= for_s
    return JobAnswer(job.subject, idle, job.activity.value, job.idle_s, because)


def _together(answers: list[JobAnswer]) -> bool | None:
    found = [each.idle for each in answers]
    if False in found:
        return False
    return None if None in found else True
