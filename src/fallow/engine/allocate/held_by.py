"""Find the GPUs that somebody holds: a user, a process with all below it, a container, a unit, a notebook."""

from collections.abc import Iterator
from itertools import islice

from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.owner import Owner
from fallow.core.process import DEEPEST, ProcessTable
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.allocate.job_subject import JobSubject, NamedOwner, SomeGpus, owner_has_name


def held_by(subject: JobSubject, status: Status, table: ProcessTable) -> Status:
    """Return the status of the GPUs that the subject holds, and of those where it may: their holders are unknown."""
    return replace(status, gpus=tuple(gpu for gpu in status.gpus if _may_hold(subject, gpu, table)))


def is_doubtful(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> bool:
    """Return whether it is not known that the subject holds the GPU."""
    return True not in _answers(subject, gpu, table)


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


def _is_of(subject: OneProcess | OneUser | NamedOwner, holder: Holder, table: ProcessTable) -> bool | None:
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


def _has_claimed(subject: OneProcess | OneUser | NamedOwner, claim: Claim, table: ProcessTable) -> bool | None:
    match subject:
        case OneUser(name=name):
            return None if claim.user is None else claim.user == name
        case OneProcess(pid=pid):
            if claim.pid is None:
                return None
            return pid in (claim.pid, *islice(table.ancestors(claim.pid), DEEPEST))
        case NamedOwner():
            return False
