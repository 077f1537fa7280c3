"""Find the GPUs that a subject holds, and for how long it has held them."""

from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.idle_answer import Presence
from fallow.core.process import ProcessTable
from fallow.core.protections import Everything
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.allocate.subjects import JobSubject, SomeGpus, Who, matches, who_claimed, who_holds
from fallow.readers.proc import TICKS_PER_S, Proc


def held_by(subject: JobSubject, status: Status, table: ProcessTable) -> Status:
    """Return the status of the GPUs that the subject holds, and of those where it may: their holders are unknown."""
    gpus = (gpu for gpu in status.gpus if any(answer is not False for answer in _answers(subject, gpu, table)))
    return replace(status, gpus=tuple(gpus))


def is_doubtful(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> bool:
    """Return whether it is not known that the subject holds the GPU."""
    return True not in _answers(subject, gpu, table)


def presences(subject: JobSubject, status: Status, proc: Proc) -> dict[str, Presence]:
    """Return for how long the subject is on each of these GPUs, by its label; nothing if it is GPUs."""
    if isinstance(subject, Everything | SomeGpus):
        return {}
    up_s = proc.uptime_s()
    return {gpu.label: _presence(subject, gpu, proc, up_s) for gpu in status.gpus}


def _presence(subject: JobSubject, gpu: GpuStatus, proc: Proc, up_s: float | None) -> Presence:
    """Return the age of the youngest process that may be the subject's; unknown if that of one is."""
    youngest = Presence(None, None)
    for pid, who in _people_on(gpu, proc):
        if matches(subject, who) is False:
            continue
        stat = None if pid is None else proc.stat(pid)
        if stat is None or up_s is None:
            return Presence(pid, None)
        age_s = up_s - stat.birth / TICKS_PER_S
        if youngest.for_s is None or age_s < youngest.for_s:
            youngest = Presence(pid, age_s)
    return youngest


def _answers(subject: JobSubject, gpu: GpuStatus, table: ProcessTable) -> list[bool | None]:
    """Return for each who may be on the GPU whether it is the subject's; None if that is not known."""
    if isinstance(subject, Everything | SomeGpus):
        return [matches(subject, Who(frozenset({str(gpu.uuid)})))]
    return [matches(subject, who) for _, who in _people_on(gpu, table)]


def _people_on(gpu: GpuStatus, table: ProcessTable) -> list[tuple[int | None, Who]]:
    """Return each who is on a GPU or has claimed it, with the pid; somebody unknown where that cannot be read."""
    nobody_known = (None, Who())
    if isinstance(gpu.holders, Unknown):
        found: list[tuple[int | None, Who]] = [nobody_known]
    else:
        found = [(each.pid, who_holds(each, table)) for each in gpu.holders]
    if isinstance(gpu.claim, Claim):
        found.append((gpu.claim.pid, who_claimed(gpu.claim, table)))
    return [*found, nobody_known] if isinstance(gpu.claim, Unknown) else found
