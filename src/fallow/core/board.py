"""The board: all that the daemon shows, as one frozen value that is made at every tick."""

from collections.abc import Iterable, Mapping

from fallow.core.cluster import ClusterBoard
from fallow.core.fleet import FleetBoard
from fallow.core.gpu_status import Status
from fallow.core.money import Prices
from fallow.core.protections import ProtectedForGood, Protection
from fallow.core.reasons import Reason, WithReason
from fallow.core.value import value
from fallow.core.visibility import EVERYTHING, Viewer, seen_by


@value
class FillerView(WithReason):
    """The state of one filler slot."""

    name: str
    gpus: tuple[str, ...]
    """The labels of its GPUs."""
    uuids: tuple[str, ...]
    phase: str
    """quiet, filled, yielding or backoff."""
    reason: Reason
    for_s: float
    """Seconds in this phase."""
    pid: int | None
    yields: int
    last_yield_s: float | None


@value
class GuardView(WithReason):
    """The state of one guard."""

    name: str
    phase: str
    reason: Reason
    uuids: tuple[str, ...] = ()
    """The GPUs that it watches."""


@value
class Counting:
    """How long an idle rule has seen a job idle or stuck, and what it does when."""

    rule: str
    subject: str
    uuids: tuple[str, ...]
    processes: tuple[str, ...]
    """The journal's keys of its processes."""
    fault: str
    """idle or stuck; empty where the rule does not judge the job."""
    for_s: float
    """For how long the fault was witnessed; 0 while there is none."""
    action: str
    """What follows if it goes on: report, warn, ask, kill or nothing."""
    in_s: float
    """After how many more seconds of the fault."""
    begins_in_s: float = 0.0
    """Seconds until a new job is counted."""
    refused: str | None = None
    """Why an action that is due is not done: too much was stopped lately, or it may not be done to this job."""
    left_alone: str | None = None
    """The protection that keeps the rule from counting, with its end."""
    held_back: str | None = None
    """Why the rule counts and nothing begins: nobody waits for the GPUs, or that cannot be read."""
    paused: str | None = None
    """The condition that cannot be told, and why: until it can, nothing is counted."""
    not_judged: str | None = None
    """Why the rule does not judge the job, although it is about a GPU of it: then all else here is empty."""


def stops_in_s(uuid: object, counting: Iterable[Counting]) -> float | None:
    """Return after how many seconds the first job on the GPU is sent its signal; known once it was warned."""
    sooner = [
        each.in_s
        for each in counting
        if uuid in each.uuids
        and each.action == "ask"
        and each.refused is None
        and each.left_alone is None
        and each.held_back is None
        and each.paused is None
    ]
    return min(sooner) if sooner else None


def killed_in_s(uuid: object, counting: Iterable[Counting]) -> float | None:
    """Return after how many seconds what is left of a job on the GPU is killed; None if none was asked to end."""
    return min((each.in_s for each in counting if uuid in each.uuids and each.action == "kill"), default=None)


def kept_back(uuid: object, counting: Iterable[Counting]) -> str | None:
    """Return why a stop on the GPU that is due is not done, such as the limit of stops; None if there is no such."""
    due = (each for each in counting if uuid in each.uuids and each.action in ("ask", "park") and each.for_s > 0)
    return next((each.refused for each in due if each.left_alone is None and each.refused is not None), None)


@value
class Histogram:
    """A histogram of durations: bounds in seconds, and for each how many durations were no longer."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    total: int
    sum_s: float


@value
class Counts:
    """All counters since the daemon started."""

    activity_s: Mapping[tuple[str, str, str], float]
    """Witnessed seconds by UUID, activity and user."""
    yields: Mapping[str, Histogram]
    """How long yields took, by filler."""
    actions: Mapping[tuple[str, str], int]
    """Actions by kind and outcome: done, failed, refused, dry_run."""
    unknowns: Mapping[tuple[str, str], int]
    """Ticks at which a reading was unknown, by its name and the reason."""


@value
class Board:
    """The machine as the daemon sees it now."""

    status: Status
    """What every user may see."""
    fillers: tuple[FillerView, ...]
    guards: tuple[GuardView, ...]
    protections: tuple[Protection, ...]
    counts: Counts
    started_wall_s: float
    config: str | None
    """The config that is in force."""
    is_dry_run: bool
    full_status: Status | None = None
    """The status with whole command lines, for users who may read them; None if `status` is all there is."""
    commands_shown: bool = False
    """Whether the owner of the machine shows command lines to all users."""
    counting: tuple[Counting, ...] = ()
    """What the idle rules count."""
    prices: Prices = Prices()
    """What an hour of a GPU costs, by the config that is in force."""

    protected: ProtectedForGood = ProtectedForGood()
    """What `[protect]` of the config that is in force names."""
    cluster: ClusterBoard | None = None
    """The cluster as its thread saw it last; None without `[cluster]`, and before its first look."""
    fleet: FleetBoard | None = None
    """The other hosts as they were last heard of; None without hosts under `[fleet]`."""

    def as_seen_by(self, viewer: Viewer) -> Status:
        """Return the status with as much of each command line as the viewer may read."""
        return self.status if self.full_status is None else seen_by(self.full_status, self.rights_of(viewer))

    def rights_of(self, viewer: Viewer) -> Viewer:
        """Return the viewer, who may read everything if the owner of the machine says so."""
        return EVERYTHING if self.commands_shown else viewer
