"""Answer whether a GPU has been idle for so long: yes, no, or that it cannot be told. Unknown is never a yes."""

from collections.abc import Iterable, Mapping

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.units import duration_for_people
from fallow.core.value import value

OLDEST_LOOK_S = 30.0
_NOW = {Activity.FREE: "free", Activity.FILLED: "filled with work that leaves", Activity.IDLE: "held, nothing runs"}
_NOBODY: "Mapping[str, Presence]" = {}


@value
class Presence:
    """For how long all processes of a subject on a GPU have been there; the youngest decides."""

    pid: int | None
    """The youngest; None if it is not known which processes these are."""
    for_s: float | None
    """None if it is not known."""


@value
class IdleAnswer:
    """The answer for one GPU, and why."""

    gpu: str
    uuid: str | None
    idle: bool | None
    """None if it cannot be told."""
    activity: Activity
    for_s: float | None
    """For how long, and of somebody's GPU at most as long as they are there; None if that is not known."""
    because: str


def idle_answers(
    status: Status, for_s: float, now_wall_s: float, presences: Mapping[str, Presence] = _NOBODY
) -> tuple[IdleAnswer, ...]:
    """Return the answer for each GPU of a status: whether it has been free, filled or idle for so long.

    `presences`: by the label of the GPU, where the question is about somebody on it. What was before they came does
    not count.
    """
    late_s = now_wall_s - status.wall_s
    late = f"the daemon last looked {duration_for_people(late_s)} ago" if late_s > OLDEST_LOOK_S else None
    return tuple(_answer(gpu, for_s, late, presences.get(gpu.label)) for gpu in status.gpus)


def all_idle(answers: Iterable[IdleAnswer]) -> bool | None:
    """Return whether all are idle: no as soon as one is not, and None if there is none or one cannot be told."""
    each = [answer.idle for answer in answers]
    return False if False in each else None if None in each or not each else True


def _answer(gpu: GpuStatus, for_s: float, late: str | None, presence: Presence | None) -> IdleAnswer:
    idle, because = (None, late) if late is not None else _judged(gpu, for_s, presence)
    uuid = gpu.uuid if isinstance(gpu.uuid, str) else None
    return IdleAnswer(gpu.label, uuid, idle, gpu.activity, _counted_s(gpu, presence), because)


def _counted_s(gpu: GpuStatus, presence: Presence | None) -> float | None:
    if presence is None or gpu.for_s is None:
        return gpu.for_s
    return None if presence.for_s is None else min(gpu.for_s, presence.for_s)


def _judged(gpu: GpuStatus, for_s: float, presence: Presence | None) -> tuple[bool | None, str]:
    if gpu.activity is Activity.UNKNOWN:
        return None, gpu.because
    if gpu.activity not in (*AVAILABLE, Activity.IDLE):
        return False, f"{gpu.activity.value}: {gpu.because}"
    if for_s <= 0:
        return True, _NOW[gpu.activity]
    if gpu.for_s is None:
        return None, f"{gpu.activity.value}; since when is not known, because `fallow up` does not watch it"
    lasted = f"{gpu.activity.value} for {duration_for_people(gpu.for_s)}"
    if gpu.for_s < for_s or presence is None:
        return gpu.for_s >= for_s, lasted
    who = "who holds it" if presence.pid is None else f"pid {presence.pid}"
    if presence.for_s is None:
        return None, f"{lasted}, and for how long {who} is there is not known"
    if presence.for_s < for_s:
        return False, f"{lasted}, and {who} is there for {duration_for_people(presence.for_s)} only"
    return True, lasted
