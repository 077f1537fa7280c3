"""What each GPU did in the last minutes, in memory, for those who begin to look only now.

Steps of some seconds: the mean of the load in each, and the last activity. Those in which nobody looked are left out.
"""

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status, load_of
from fallow.core.unknown import Unknown
from fallow.core.value import value

STEP_S = 5
_STEPS = 61  # five minutes, and the step that is not over


@value
class RecentGpu:
    """One GPU in one step."""

    load_sum: float
    loads: int
    """How many readings of the load there were."""
    activity: Activity

    @property
    def load(self) -> float | None:
        """Return the mean; None if there was no reading."""
        return self.load_sum / self.loads if self.loads else None


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
        """Add what was seen at one tick."""
        begin_s = int(status.wall_s // STEP_S * STEP_S)
        steps = self.steps
        if steps and steps[-1].begin_wall_s > begin_s:
            steps = ()  # the clock was set back: what was before cannot be placed
        before = steps[-1].gpus if steps and steps[-1].begin_wall_s == begin_s else None
        gpus = {}
        for gpu in status.gpus:
            load, had = load_of(gpu), None if before is None else before.get(gpu.label)
            known = not isinstance(load, Unknown)
            load_sum = (0.0 if had is None else had.load_sum) + (0.0 if isinstance(load, Unknown) else load)
            gpus[gpu.label] = RecentGpu(load_sum, (0 if had is None else had.loads) + known, gpu.activity)
        if before is not None:
            steps = steps[:-1]
        else:
            earliest_s = begin_s - (_STEPS - 1) * STEP_S
            steps = tuple(each for each in steps if each.begin_wall_s >= earliest_s)
        self.steps = (*steps, RecentStep(begin_s, gpus))
