"""Find the GPUs that somebody holds: a user, a process with all below it, a container, a unit, a notebook."""

from collections.abc import Iterator
from itertools import islice

from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.idle_answer import Presence
from fallow.core.owner import Owner
from fallow.core.process import DEEPEST, ProcessTable
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.allocate.job_subject import JobSubject, NamedOwner, SomeGpus, owner_has_name
from fallow.readers.proc import TICKS_PER_S, Proc

_Somebody = OneProcess | OneUser | NamedOwner


def held_by(subject: JobSubject, status: Status, table: ProcessTable) -> Status:
    """Return the status of the GPUs that the subject holds, and of those where it may: their holders are unknown."""
    return replace(status, gpus=tuple(gpu for gpu in status.gpus if _may_hold(subject, gpu, table)))


def is_doubtful(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> bool:
    """Return whether it is not known that the subject holds the GPU."""
    return True not in _answers(subject, gpu, table)


def presences(subject: JobSubject, status: Status, proc: Proc) -> dict[str, Presence]:
    """Return for how long the subject is on each of these GPUs, by its label; nothing if it is GPUs."""
    if isinstance(subject, Everything | SomeGpus):
        return {}
    up_s = proc.uptime_s()
    return {gpu.label: _presence(subject, gpu, proc, up_s) for gpu in status.gpus}


def _presence(subject: _Somebody, gpu: GpuStatus, proc: Proc, up_s: float | None) -> Presence:
    """Return the age of the youngest process that may be the subject's; unknown if that of one is."""
    if isinstance(gpu.holders, Unknown) or isinstance(gpu.claim, Unknown):
        return Presence(None, None)
    pids = [each.pid for each in gpu.holders if _is_of(subject, each, proc) is not False]
    if isinstance(gpu.claim, Claim) and _has_claimed(subject, gpu.claim, proc) is not False:
        if gpu.claim.pid is None:
            return Presence(None, None)
        pids.append(gpu.claim.pid)
    youngest = Presence(None, None)
    for pid in pids:
        stat = proc.stat(pid)
        if stat is None or up_s is None:
            return Presence(pid, None)
        age_s = up_s - stat.birth / TICKS_PER_S
        if youngest.for_s is None or age_s < youngest.for_s:
            youngest = Presence(pid, age_s)
    return youngest


def _may_hold(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> bool:
    return any(answer is not False for answer in _answers(subject, gpu, table))


def _answers(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> list[bool | None]:
    """Return for each who may be on the GPU whether it is the subject's; None if that is not known."""
    if isinstance(subject, Everything):
        return [True]
    if isinstance(subject, SomeGpus):
        return [gpu.uuid in subject.uuids]
    holders: list[bool | None] = [None] if isinstance(gpu.holders, Unknown) else []
    holders += [_is_of(subject, holder, table) for holder in _known_holders(gpu)]
    if isinstance(gpu.claim, Claim):
        holders.append(_has_claimed(subject, gpu.claim, table))
    return [*holders, None] if isinstance(gpu.claim, Unknown) else holders


def _known_holders(gpu: Gpu) -> Iterator[Holder]:
    yield from () if isinstance(gpu.holders, Unknown) else gpu.holders


def _is_of(subject: _Somebody, holder: Holder, table: ProcessTable) -> bool | None:
    match subject:
        case OneProcess(pid=pid):
            return pid in (holder.pid, *islice(table.ancestors(holder.pid), DEEPEST))
        case OneUser(name=name):
            return None if isinstance(holder.user, Unknown) else holder.user == name
        case NamedOwner():
            owner = holder.owner
            if not isinstance(owner, Owner):
                return None
            if owner.kind is not subject.kind:
                return False
            return True if owner_has_name(owner, subject.name) else None if isinstance(owner.name, Unknown) else False


def _has_claimed(subject: _Somebody, claim: Claim, table: ProcessTable) -> bool | None:
    match subject:
        case OneUser(name=name):
            return None if claim.user is None else claim.user == name
        case OneProcess(pid=pid):
            if claim.pid is None:
                return None
            return pid in (claim.pid, *islice(table.ancestors(claim.pid), DEEPEST))
        case NamedOwner():
            return False
