"""The status of a GPU: its readings together with what was concluded from them."""

from collections.abc import Mapping
from typing import Any

from fallow.core.activity import AVAILABLE, UNUSED, Activity, Finding
from fallow.core.gpu import Gpu, Holder
from fallow.core.parked import ParkedJob
from fallow.core.reasons import Reason, WithReason
from fallow.core.reservations import Claim
from fallow.core.units import duration_for_people
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace, value


@value
class GpuStatus(Gpu, WithReason):
    """A GPU with what it did, for how long, and who has claimed it."""

    activity: Activity = Activity.UNKNOWN
    reason: Reason = Reason("not_judged")
    for_s: float | None = None
    """Witnessed seconds of this activity; None if it was not watched."""
    claim: Claim | Unknown | None = NOT_ASKED
    waiting: int = 0
    """How many launches wait for it."""
    filler: Claim | None = None
    """The filler on it, as it describes itself."""
    filler_pids: tuple[int, ...] = ()
    """Its holders that belong to the filler."""


def people_on(gpu: GpuStatus) -> tuple[Holder, ...]:
    """Return the holders of a GPU without its fillers; none if the holders are not known."""
    if isinstance(gpu.holders, Unknown):
        return ()
    return tuple(holder for holder in gpu.holders if holder.pid not in gpu.filler_pids)


def load_of(gpu: GpuStatus) -> float | Unknown:
    """Return its utilization: the mean of the last seconds, or of this moment where that is not known."""
    return gpu.utilization if isinstance(gpu.recent, Unknown) else gpu.recent.mean


@value
class Status:
    """All GPUs of one tick, judged."""

    host: str
    simulated: bool
    wall_s: float
    gpus: tuple[GpuStatus, ...]
    parked: tuple[ParkedJob, ...] = ()
    """The jobs whose memory is off their GPUs."""

    @property
    def counted(self) -> dict[Activity, int]:
        """Return how many GPUs have each activity that occurs, in the order of activities."""
        does = [gpu.activity for gpu in self.gpus]
        return {activity: does.count(activity) for activity in Activity if activity in does}

    @property
    def available(self) -> int:
        """Return how many are available now."""
        return sum(self.counted.get(activity, 0) for activity in AVAILABLE)

    def among(self, labels: frozenset[str]) -> "Status":
        """Return the status of these GPUs alone."""
        gpus = tuple(gpu for gpu in self.gpus if gpu.label in labels)
        uuids = {gpu.uuid for gpu in gpus}
        return replace(self, gpus=gpus, parked=tuple(job for job in self.parked if not uuids.isdisjoint(job.uuids)))

    @property
    def in_words(self) -> str:
        """Return `4 available (1 free, 3 filled), 3 busy, 1 idle`: first what is available."""
        return self.summed_up("available")

    def summed_up(self, available: str, *, parts: bool = True, unused_for: bool = False) -> str:
        """Return the status in words, with this word for what is available.

        `parts`: say what is available by activity. `unused_for`: say for how long the longest is idle or stuck.
        """
        told = {activity: f"{number} {activity.value}" for activity, number in self.counted.items()}
        within = ", ".join(told[activity] for activity in AVAILABLE if activity in told)
        have = f"{self.available} {available}{f' ({within})' if parts else ''}" if within else f"none {available}"
        others = [activity for activity in told if activity not in AVAILABLE]
        return ", ".join([have, *(told[each] + (self._longest(each) if unused_for else "") for each in others)])

    def _longest(self, activity: Activity) -> str:
        """Return ` for 2h34m`, the longest of several; nothing for GPUs in use, or if that is not known."""
        times = [gpu.for_s for gpu in self.gpus if gpu.activity is activity and gpu.for_s]
        if activity not in UNUSED or not times:
            return ""
        return f" for {'up to ' if self.counted[activity] > 1 else ''}{duration_for_people(max(times))}"


@value
class Outlook:
    """What rules and protections mean for a GPU."""

    stops_in_s: float | None = None
    """When a rule stops the first job on it if that goes on as now; None if none does."""
    protected_s: float | Unknown | None = None
    """For how long it, or what is on it, is protected: inf until that is released, None if it is not."""
    kept_back: str | None = None
    """Why a stop that is due is not done; None if there is no such."""
    killed_in_s: float | None = None
    """When what is left of a job that was asked to end is killed; None if none was."""
    warns_in_s: float | None = None
    """When the job that is stopped first is warned before that; None if it was, or none is stopped."""
    left_alone: str | None = None
    """Why rules leave a job on it alone, as for its environment or another GPU that it holds; None if they do not."""

    @property
    def is_protected(self) -> bool:
        """Return whether it, or a job on it, is known to be protected."""
        return self.left_alone is not None or isinstance(self.protected_s, float)


NO_OUTLOOK = Outlook()


@value
class Shown:
    """A status, and what of it is shown to the user who asks."""

    status: Status
    visible_devices: str | None
    """The outer CUDA_VISIBLE_DEVICES, if there is one."""
    to_you: int
    """How many of the available GPUs that allows."""
    lines: tuple[GpuStatus, ...]
    """The GPUs that were asked for, in the order in which they were."""
    outlooks: Mapping[str, Outlook]
    """What rules and protections mean for each, by its label."""
    remark: str | None = None
    """What was asked for and is not among the lines."""


def seen(gpu: Gpu, finding: Finding, for_s: float | None, claim: Claim | Unknown | None, **more: Any) -> GpuStatus:  # noqa: ANN401
    """Return the GPU with its finding; `more` are further fields of its status."""
    about = {"activity": finding.activity, "reason": finding.reason, "for_s": for_s, "claim": claim, **more}
    return GpuStatus(**vars(gpu), **about)
