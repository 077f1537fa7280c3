"""What each GPU did in the last five minutes, from the statuses that the daemon publishes.

History has samples of half a minute; these are for what people see at once, such as the last minutes in `top`. A step
is five seconds long. Steps in which nobody looked are left out.
"""

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status, load_of
from fallow.core.unknown import Unknown
from fallow.core.value import value

STEP_S = 5
_LASTS_S = 300


@value
class RecentGpu:
    """One GPU in one step."""

    loads: tuple[float, ...]
    """The readings of the load."""
    activity: Activity

    @property
    def load(self) -> float | None:
        """Return the mean; None if there was no reading."""
        return sum(self.loads) / len(self.loads) if self.loads else None


@value
class RecentStep:
    """All GPUs in one step, by their labels."""

    begin_wall_s: int
    gpus: dict[str, RecentGpu]


class RecentMinutes:
    """The last steps. One thread adds; others read the tuple, which is replaced and never changed."""

    def __init__(self) -> None:
        self.steps: tuple[RecentStep, ...] = ()

    def add(self, status: Status) -> None:
        """Add what was seen at one tick. What was seen later than that, before the clock was set back, goes."""
        begin_s = int(status.wall_s // STEP_S * STEP_S)
        steps = [each for each in self.steps if begin_s - _LASTS_S <= each.begin_wall_s <= begin_s]
        before = steps.pop().gpus if steps and steps[-1].begin_wall_s == begin_s else {}
        gpus = {}
        for gpu in status.gpus:
            load, loads = load_of(gpu), before[gpu.label].loads if gpu.label in before else ()
            gpus[gpu.label] = RecentGpu(loads if isinstance(load, Unknown) else (*loads, load), gpu.activity)
        self.steps = (*steps, RecentStep(begin_s, gpus))
