"""`fallow why`: explain why a GPU or a process is judged as it is, which rule counts, and what was done."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from fallow.core.errors import FallowError, WrongUsage
from fallow.core.findings import Event, gpu_key, process_key
from fallow.core.gpu import Gpu, labels_of
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.parked import ParkedJob
from fallow.core.process import DEEPEST
from fallow.core.protections import AffectedProcess, OneGpu, OneProcess, Protection, parse_target, with_its_end
from fallow.core.units import printable, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.allocate.protection_target import target_of
from fallow.engine.history import journal_file
from fallow.engine.jobs.protections import protections_on
from fallow.engine.machine.daemon_client import DaemonClient, Ruled
from fallow.engine.machine.observe import look_once
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_alone, add_json
from fallow.interfaces.render import why_text
from fallow.interfaces.render.as_json import as_text, iso_time
from fallow.interfaces.stderr import Stderr

_MOST_EVENTS = 30
_SHOWN_BY = "`fallow status` lists the GPUs and the processes on them"
_EMPTY = "the journal is empty: nothing was found or done yet"
_NO_STORY = "the journal has no entries on that"
ABOUT = """\
Explain a GPU, a process or a job of a cluster: what it does now and why, since
when, who is on it, which rule counts and when it would act; then the last
decision with its readings, and what was done."""
EXAMPLES = """\
  fallow why            the last decision, and what was done
  fallow why 3          GPU 3
  fallow why 12345      a process
  fallow why slurm:1234      a job of a cluster; or node:n1
  fallow why --json"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow why`."""
    made.usage = "fallow why [OPTIONS] [GPU|PID]"
    made.add_argument(
        "subject",
        nargs="?",
        metavar="GPU|PID",
        help="the GPU or process to explain, or a part of the cluster: slurm:ID, deployment:NAMESPACE/NAME, "
        "pod:NAMESPACE/NAME, node:NAME (default: the last one)",
    )
    add_json(made)
    add_alone(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Print what is so now, and what the journals of this user and the daemon have."""
    if args.subject is not None and ":" in args.subject:
        from fallow.core.cluster_names import names_cluster

        if names_cluster(args.subject):
            from fallow.interfaces.cli import cluster_why

            return cluster_why.run(args, world, voice)
    found = explain(args.subject, world, voice, alone=args.alone)
    if args.json:
        print(as_text(_as_json(found)))
        return 0
    for line in in_lines(found, world, voice):
        print(line)
    return 0


@value
class Explained:
    """What is so now about a GPU or a process, and what the journals have on it."""

    target: OneGpu | OneProcess | None
    watched: bool
    """Whether a daemon told it."""
    alone: bool
    trouble: str | None
    """Why a daemon that is there could not be asked."""
    gpus: tuple[GpuStatus, ...]
    parked: tuple[ParkedJob, ...]
    protections: Sequence[Protection]
    rules: Sequence[Ruled]
    events: Sequence[Event]
    unreadable: FallowError | None
    now_s: float
    labels: Mapping[str, str]
    """What people call each GPU, by its UUID."""


def explain(subject: str | None, world: World, voice: Stderr, *, alone: bool = False) -> Explained:
    """Explain a GPU or a process by what the daemon or one reading says; without a subject, the last decision."""
    daemon = None if alone else world.daemon(voice.detail)
    told = None if daemon is None else daemon.status()
    target = _target(subject, world, None if told is None else told.gpus)
    key = _key(target)
    status = told if told is not None or target is None else _look(world, voice)
    gpus = () if status is None else tuple(gpu for gpu in status.gpus if _concerns(gpu, target))
    parked = () if status is None else tuple(job for job in status.parked if _is_meant(job, target))
    rules: list[Ruled] = []
    if daemon is not None and told is not None and target is not None:
        process = str(target) if isinstance(target, OneProcess) else None
        rules = daemon.rules_on([str(gpu.uuid) for gpu in gpus], process) or []
    has_ended = isinstance(target, OneProcess) and not _lives(target, world)  # then nothing can protect it
    protections = [] if target is None or has_ended else protections_on(gpus, world, daemon, _touched(target, world))
    events, unreadable = events_of(world, None if told is None else daemon, key)
    if (
        isinstance(target, OneProcess)
        and status is not None
        and not (gpus or parked or protections or rules or events or unreadable)
    ):
        _refuse_who_is_on_no_gpu(target, status, world)
    if unreadable is not None:
        if target is None and not events:
            raise unreadable  # there is nothing else to print
        voice.note(str(unreadable))
    trouble = None if daemon is None else daemon.trouble
    now_s = world.clock.wall_s()
    watched = told is not None
    labels = {} if status is None else labels_of(status.gpus)
    return Explained(
        target, watched, alone, trouble, gpus, parked, protections, rules, events, unreadable, now_s, labels
    )


def _as_json(found: Explained) -> dict[str, object]:
    target, why_not = found.target, None if found.unreadable is None else str(found.unreadable)
    return why_text.as_json(
        None if target is None else str(target),
        None if target is None else found.watched,
        found.gpus,
        found.now_s,
        found.protections,
        found.rules,
        found.events,
        why_not,
        found.parked,
    )


def in_lines(found: Explained, world: World, voice: Stderr) -> Iterator[str]:
    """Return the explanation for people, line by line."""
    yield from _now(found.target, found.gpus, world, found.now_s)
    for job in found.parked:
        yield f"  {printable(job.in_words)}"
    for protection in found.protections:
        yield f"  {with_its_end(protection, found.now_s, found.labels)}"
    if found.trouble is not None:
        voice.note(f"the daemon could not be asked, so what it has watched and done is not here: {found.trouble}")
    elif found.gpus and not found.watched:
        yield f"  `fallow up` {'was not asked' if found.alone else 'does not run'}, so it is not known since when"
    yield from map(why_text.ruled, found.rules)
    yield from why_text.story(found.events, found.now_s)
    if not found.events and found.unreadable is None and found.trouble is None:
        yield _no_journal(world) or (_EMPTY if found.target is None else _NO_STORY)


def _no_journal(world: World) -> str | None:
    """Return that there is no journal, and why; None if there is one, or one can be made."""
    from fallow.actuators.files.state_folder import why_unusable

    why = why_unusable(world.state_folder)
    return None if why is None else f"there is no journal: {why}; set FALLOW_STATE_DIR to a folder of yours"


def _target(subject: str | None, world: World, seen: Sequence[Gpu] | None) -> OneGpu | OneProcess | None:
    if subject is None:
        return None
    kind, _, rest = subject.partition(":")
    if kind == "pid" and "@" in rest:
        found = parse_target(subject)
    else:
        found = target_of(subject, world, gone_is_fine=True, among=seen)
    if not isinstance(found, OneGpu | OneProcess):
        raise WrongUsage(f"{subject!r} is neither a GPU nor a process; write: fallow why [GPU|PID]")
    return found


def _key(target: OneGpu | OneProcess | None) -> str | None:
    """Return the journal's key of a target; a process that has ended is the last one with its pid."""
    match target:
        case OneGpu(uuid=uuid):
            return gpu_key(uuid)
        case OneProcess(pid=pid, birth=0):
            return f"pid:{pid}"
        case OneProcess(pid=pid, birth=birth):
            return process_key(pid, birth)
        case None:
            return None


def _touched(target: OneGpu | OneProcess, world: World) -> tuple[AffectedProcess, ...]:
    """Return the process itself, for the protections on it; none if it has ended."""
    if isinstance(target, OneGpu) or target.birth == 0:
        return ()
    return (AffectedProcess(target.pid, target.birth, world.proc.user(target.pid), world.proc.command(target.pid)),)


def _look(world: World, voice: Stderr) -> Status | None:
    try:
        return look_once(world)
    except FallowError as error:
        voice.note(f"what is on the GPUs now cannot be seen: {error}")
        return None


def _concerns(gpu: GpuStatus, target: OneGpu | OneProcess | None) -> bool:
    match target:
        case OneGpu(uuid=uuid):
            return gpu.uuid == uuid or (gpu.mig is not None and gpu.mig.parent_uuid == uuid)
        case OneProcess(pid=pid, birth=birth):
            return birth != 0 and not isinstance(gpu.holders, Unknown) and pid in {each.pid for each in gpu.holders}
        case None:
            return False


def _is_meant(job: ParkedJob, target: OneGpu | OneProcess | None) -> bool:
    match target:
        case OneGpu(uuid=uuid):
            return uuid in job.uuids
        case OneProcess(pid=pid):
            return any(process.pid == pid for process in job.processes)
        case None:
            return False


def _now(target: OneGpu | OneProcess | None, gpus: Sequence[GpuStatus], world: World, now_s: float) -> Iterator[str]:
    if isinstance(target, OneProcess):
        if not _lives(target, world):
            yield f"pid {target.pid} has ended"
        elif not gpus:
            yield f"pid {target.pid} uses no GPU that can be seen"
    elif target is not None and not gpus:
        yield f"GPU {target.uuid} is not to be seen"
    for gpu in gpus:
        yield from why_text.gpu_now(gpu, now_s)


def _lives(target: OneProcess, world: World) -> bool:
    stat = world.proc.stat(target.pid)
    return stat is not None and target.birth == stat.birth


def _refuse_who_is_on_no_gpu(target: OneProcess, status: Status, world: World) -> None:
    """Raise WrongUsage if the process uses no GPU and all holders are known: another one was meant."""
    if not _lives(target, world):
        sentence = f"there is no process {target.pid}, and the journal has nothing on one that has ended"
        raise WrongUsage(sentence, _SHOWN_BY)
    blind = next((gpu for gpu in status.gpus if isinstance(gpu.holders, Unknown)), None)
    if blind is None:
        command = world.proc.command(target.pid)
        what = "" if isinstance(command, Unknown) else f" ({program_name(command)})"
        raise WrongUsage(f"pid {target.pid}{what} uses no GPU", _who_is_below(target, status, world) or _SHOWN_BY)


def _who_is_below(target: OneProcess, status: Status, world: World) -> str:
    """Return which process below this one uses a GPU, as the job of a launcher does; empty if none does."""
    for gpu in status.gpus:
        for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
            if target.pid != 1 and target.pid in islice(world.proc.ancestors(holder.pid), DEEPEST):
                return f"pid {holder.pid} below it is on GPU {gpu.label}; try: fallow why {holder.pid}"
    return ""


def events_of(world: World, daemon: DaemonClient | None, key: str | None) -> tuple[list[Event], FallowError | None]:
    """Return events of both journals, newest first and without duplicates, and why ours cannot be read."""
    found: list[Event] = []
    unreadable: FallowError | None = None
    try:
        found += journal_file.read(world.state_folder, key, _MOST_EVENTS)
    except FallowError as error:
        unreadable = error
    if daemon is not None:
        found += daemon.events(key, _MOST_EVENTS) or []
    events = {(iso_time(event.wall_s), event.kind, event.subject, event.finding): event for event in found}
    last = sorted(events.values(), key=lambda event: (event.wall_s, event.id), reverse=True)[:_MOST_EVENTS]
    return last, unreadable
