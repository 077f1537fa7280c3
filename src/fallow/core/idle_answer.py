"""Answer whether a GPU has been idle for so long: yes, no, or that it cannot be told. Unknown is never a yes."""

from collections.abc import Iterable

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.units import duration_for_people
from fallow.core.value import value

_OLDEST_LOOK_S = 30.0


@value
class IdleAnswer:
    """The answer for one GPU, and why."""

    gpu: str
    uuid: str | None
    idle: bool | None
    """None if it cannot be told."""
    activity: Activity
    for_s: float | None
    because: str


def idle_answers(status: Status, for_s: float, now_wall_s: float) -> tuple[IdleAnswer, ...]:
    """Return the answer for each GPU of a status: whether it has been free, filled or idle for so long."""
    late_s = now_wall_s - status.wall_s
    late = f"the daemon last looked {duration_for_people(late_s)} ago" if late_s > _OLDEST_LOOK_S else None
    return tuple(_answer(gpu, for_s, late) for gpu in status.gpus)


def all_idle(answers: Iterable[IdleAnswer]) -> bool | None:
    """Return whether all are idle: no as soon as one is not, and None if there is none or one cannot be told."""
    each = [answer.idle for answer in answers]
    return False if False in each else None if None in each or not each else True


def _answer(gpu: GpuStatus, for_s: float, late: str | None) -> IdleAnswer:
    idle, because = (None, late) if late is not None else _judged(gpu, for_s)
    uuid = gpu.uuid if isinstance(gpu.uuid, str) else None
    return IdleAnswer(gpu.label, uuid, idle, gpu.activity, gpu.for_s, because)


def _judged(gpu: GpuStatus, for_s: float) -> tuple[bool | None, str]:
    if gpu.activity is Activity.UNKNOWN:
        return None, gpu.because
    if gpu.activity not in (*AVAILABLE, Activity.IDLE):
        return False, f"{gpu.activity.value}: {gpu.because}"
    if for_s <= 0:
        return True, gpu.activity.value
    if gpu.for_s is None:
        return None, f"{gpu.activity.value}; since when is not known, because `fallow up` does not watch it"
    lasted = f"{gpu.activity.value} for {duration_for_people(gpu.for_s)}"
    return (True, lasted) if gpu.for_s >= for_s else (False, f"{lasted} only")
