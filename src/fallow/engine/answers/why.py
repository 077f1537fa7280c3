"""Explain a GPU, a process or a user: what it does now, which rule counts, and what the journals of it have."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.findings import USER, Event, gpu_key, process_key
from fallow.core.gpu import Gpu, labels_of
from fallow.core.gpu_status import GpuStatus, Status, people_on
from fallow.core.parked import ParkedJob
from fallow.core.ports import Depth
from fallow.core.process import DEEPEST
from fallow.core.protections import AffectedProcess, OneGpu, OneProcess, OneUser, Protection
from fallow.core.units import is_number, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.allocate.subjects import TO_EXPLAIN, target_of
from fallow.engine.answers.asker import Asker
from fallow.engine.client.daemon_client import DaemonClient, Ruled
from fallow.engine.history import journal_file
from fallow.engine.jobs.protections import protections_on
from fallow.engine.machine.observe import look_once
from fallow.engine.machine.world import World
from fallow.readers.accounts import is_user, names

_MOST_EVENTS = 30
_READ_BACK = 500
_ASKED = ("ask", "park")
_GONE = ("stopped", "parked")
_SHOWN_BY = "`fallow status` lists the GPUs and the processes on them"


Subject = OneGpu | OneProcess | OneUser


@value
class Stopped:
    """A job that was asked to end, or parked, and why."""

    asked: Event
    is_gone: bool
    """Whether it was seen to leave its GPUs."""


@value
class Explained:
    """What is so now about a GPU, a process or the jobs of a user, and what the journals have on it."""

    target: Subject | None
    watched: bool
    """Whether a daemon told it."""
    trouble: str | None
    """Why a daemon that is there could not be asked."""
    has_ended: bool
    """Whether it is a process that has ended."""
    gpus: tuple[GpuStatus, ...]
    parked: tuple[ParkedJob, ...]
    protections: Sequence[Protection]
    rules: Sequence[Ruled]
    events: Sequence[Event]
    stops: Sequence[Stopped]
    """The last stops of jobs, newest first, also those from before these events."""
    unreadable: FallowError | None
    """Why a journal could not be read."""
    no_journal: str | None
    """Why there is no journal."""
    now_s: float
    labels: Mapping[str, str]
    """What people call each GPU, by its UUID."""


def explain(asker: Asker, subject: str | None) -> Explained:
    """Explain the subject by what the daemon or one reading says; without a subject, the last decision."""
    world, daemon = asker.world, asker.daemon
    told = daemon.status()
    target = _target(subject, world, None if told is None else told.gpus)
    key = _key(target)
    status = told if told is not None or target is None else _look(asker)
    gpus = () if status is None else tuple(gpu for gpu in status.gpus if _concerns(gpu, target))
    parked = () if status is None else tuple(job for job in status.parked if _is_meant(job, target))
    rules: list[Ruled] = []
    if told is not None and target is not None:
        process = str(target) if isinstance(target, OneProcess) else None
        rules = daemon.rules_on([str(gpu.uuid) for gpu in gpus], process) or []
    has_ended = isinstance(target, OneProcess) and not _lives(target, world)  # then nothing can protect it
    protections = [] if target is None or has_ended else protections_on(gpus, world, daemon, _touched(target, world))
    read, unreadable = events_of(world, None if told is None else daemon, key, _READ_BACK)
    events = read[:_MOST_EVENTS]
    if (
        isinstance(target, OneProcess)
        and status is not None
        and not (gpus or parked or protections or rules or events or unreadable)
    ):
        _refuse_who_is_on_no_gpu(target, str(subject), status, world)
    trouble = daemon.trouble
    nothing = not (gpus or parked or read or unreadable or trouble)
    if isinstance(target, OneUser) and nothing and not _may_be_there(target.name):
        way = did_you_mean(target.name, names()) or _SHOWN_BY
        raise WrongUsage(f"there is no user {target.name!r} here, and nothing is known of jobs of that name", way)
    if unreadable is not None:
        if target is None and not events:
            raise unreadable  # there is nothing else to print
        asker.note(str(unreadable))
    if trouble is not None:
        asker.note(f"the daemon could not be asked, so what it has watched and done is not here: {trouble}")
    return Explained(
        target=target,
        watched=told is not None,
        trouble=trouble,
        has_ended=has_ended,
        gpus=gpus,
        parked=parked,
        protections=protections,
        rules=rules,
        events=events,
        stops=_stops(read),
        unreadable=unreadable,
        no_journal=None if events or unreadable is not None else _no_journal(world),
        now_s=world.clock.wall_s(),
        labels={} if status is None else labels_of(status.gpus),
    )


def _stops(events: Sequence[Event]) -> list[Stopped]:
    """Return the stops among events, both newest first."""
    gone: set[str] = set()
    found = []
    for event in events:
        if event.kind == "outcome" and event.step in _GONE:
            gone.add(event.subject)
        elif event.kind == "action" and event.step in _ASKED:
            found.append(Stopped(event, event.subject in gone))
            gone.discard(event.subject)
    return found


def events_of(
    world: World, daemon: DaemonClient | None, key: str | None, most: int = _MOST_EVENTS
) -> tuple[list[Event], FallowError | None]:
    """Return events of both journals, newest first and without duplicates, and why ours cannot be read."""
    found: list[Event] = []
    unreadable: FallowError | None = None
    try:
        found += journal_file.read(world.state_folder, key, most)
    except FallowError as error:
        unreadable = error
    if daemon is not None:
        found += daemon.events(key, most) or []
    events = {(_as_told(event.wall_s), event.kind, event.subject, event.finding): event for event in found}
    last = sorted(events.values(), key=lambda event: (event.wall_s, event.id), reverse=True)[:most]
    return last, unreadable


def _as_told(wall_s: float) -> str:
    """Return a time as the API tells it, to the millisecond, so that one event of two journals is found to be one."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")


def _no_journal(world: World) -> str | None:
    """Return why there is no journal; None if there is one, or one can be made."""
    at = path = world.state_folder
    while not os.path.lexists(at) and at != "/":
        at = os.path.dirname(at)
    if os.access(at, os.W_OK | os.X_OK):
        return None
    return f"{at} is not yours to write" if at == path else f"{at} is not yours to write, and {path} is not there"


def _target(subject: str | None, world: World, seen: Sequence[Gpu] | None) -> Subject | None:
    if subject is None:
        return None

    def gpus() -> Sequence[Gpu]:
        return world.gpu_reader.look(Depth.HOLDERS).gpus if seen is None else seen

    found = target_of(subject, TO_EXPLAIN, gpus, world.proc, world.user)
    if not isinstance(found, Subject):
        raise WrongUsage(f"{subject!r} is neither a GPU nor a process nor a user", TO_EXPLAIN.way)
    return found


def _key(target: Subject | None) -> str | None:
    """Return the journal's key of a target; a process that has ended is the last one with its pid."""
    match target:
        case OneGpu(uuid=uuid):
            return gpu_key(uuid)
        case OneProcess(pid=pid, birth=0):
            return f"pid:{pid}"
        case OneProcess(pid=pid, birth=birth):
            return process_key(pid, birth)
        case OneUser(name=name):
            return f"{USER}{name}"
        case None:
            return None


def _touched(target: Subject, world: World) -> tuple[AffectedProcess, ...] | None:
    """Return the process itself, for the protections on it; none if it has ended, None for all on a GPU."""
    if not isinstance(target, OneProcess):
        return None
    if target.birth == 0:
        return ()
    return (AffectedProcess(target.pid, target.birth, world.proc.user(target.pid), world.proc.command(target.pid)),)


def _look(asker: Asker) -> Status | None:
    try:
        return look_once(asker.world)
    except FallowError as error:
        asker.note(f"what is on the GPUs now cannot be seen: {error}")
        return None


def _concerns(gpu: GpuStatus, target: Subject | None) -> bool:
    match target:
        case OneUser(name=name):
            return any(each.user == name for each in people_on(gpu))
        case OneGpu(uuid=uuid):
            return gpu.uuid == uuid or (gpu.mig is not None and gpu.mig.parent_uuid == uuid)
        case OneProcess(pid=pid, birth=birth):
            return birth != 0 and not isinstance(gpu.holders, Unknown) and pid in {each.pid for each in gpu.holders}
        case None:
            return False


def _is_meant(job: ParkedJob, target: Subject | None) -> bool:
    match target:
        case OneUser(name=name):
            return job.user == name
        case OneGpu(uuid=uuid):
            return uuid in job.uuids
        case OneProcess(pid=pid):
            return any(process.pid == pid for process in job.processes)
        case None:
            return False


def _may_be_there(name: str) -> bool:
    return is_number(name) or is_user(name)


def _lives(target: OneProcess, world: World) -> bool:
    stat = world.proc.stat(target.pid)
    return stat is not None and target.birth == stat.birth


def _refuse_who_is_on_no_gpu(target: OneProcess, subject: str, status: Status, world: World) -> None:
    """Raise WrongUsage if the process uses no GPU and all holders are known: another one was meant."""
    if not _lives(target, world):
        none = f"no process {target.pid}" if ":" in subject else f"neither a GPU nor a process {target.pid}"
        sentence = f"there is {none}, and the journal has nothing on one that has ended"
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
