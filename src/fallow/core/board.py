"""The board: all that the daemon shows, as one frozen value that is made at every tick."""

from collections.abc import Iterable, Mapping

from fallow.core.cluster import ClusterBoard
from fallow.core.gpu_status import Outlook, Status
from fallow.core.money import Prices
from fallow.core.protections import ProtectedForGood, Protection
from fallow.core.reasons import Reason, WithReason
from fallow.core.settling import SETTLING_S
from fallow.core.unknown import Unknown
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
    notice_s: float | None = None
    """How long after the warning that comes next the job is stopped; None if none comes, or no stop follows it."""
    protection: int | None = None
    """The id of the protection in `left_alone`; None if something else protects the job, or nothing."""
    counted_since: str | None = None
    """What the rule began to count after, while the job has not worked since: so the GPU may be idle for longer."""
    parks: bool = False
    """Whether a job is parked, if that is possible, instead of asked to end."""

    @property
    def lasted(self) -> str:
        """Return `, counted since its protection ended`, to go with the time of the fault; else it is empty."""
        return "" if self.counted_since is None else f", counted since {self.counted_since}"

    @property
    def kept_by(self) -> str | None:
        """Return what keeps an action back; None if nothing does."""
        kept = (self.left_alone, self.refused, self.held_back, self.paused)
        return next((why for why in kept if why is not None), None)

    @property
    def stops_in_s(self) -> float | None:
        """Return after how many more seconds of the fault the job is asked to end, or parked; None if it is not."""
        if self.action in ("ask", "park"):
            return self.in_s
        return None if self.action != "warn" or self.notice_s is None else self.in_s + self.notice_s

    @property
    def is_due(self) -> bool:
        """Return whether something follows if the fault goes on. What has only just begun may be a pause of its work:
        a job is called idle when a GPU would be, or when it was warned.
        """
        if self.not_judged is not None or self.action == "nothing" or not self.for_s:
            return False
        return self.for_s >= SETTLING_S or self.action not in ("warn", "report")


def outlook_on(uuid: object, counting: Iterable[Counting], protected_s: float | Unknown | None = None) -> Outlook:
    """Return what the rules mean for a GPU. `protected_s` is for how long it is protected."""
    about = [each for each in counting if uuid in each.uuids]
    stops = [(each.stops_in_s, each) for each in about if each.is_due and each.kept_by is None and not each.parks]
    in_s, first = min(
        ((in_s, each) for in_s, each in stops if in_s is not None), key=lambda stop: stop[0], default=(None, None)
    )
    due = (each for each in about if each.action in ("ask", "park") and each.for_s > 0 and each.left_alone is None)
    return Outlook(
        in_s,
        protected_s,
        next((each.refused for each in due if each.refused is not None), None),
        min((each.in_s for each in about if each.action == "kill"), default=None),
        None if first is None or first.action != "warn" else first.in_s,
        next((each.left_alone for each in about if each.left_alone is not None), None),
    )


def protected_otherwise(counting: Iterable[Counting], listed: Iterable[Protection]) -> list[str]:
    """Return of each job that something else than these protections protects, what does, as a sentence."""
    known = {protection.id for protection in listed}
    others = (each for each in counting if each.left_alone is not None and each.protection not in known)
    return list(dict.fromkeys(f"{each.subject} is protected: {each.left_alone}" for each in others))


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
    energy_j: Mapping[str, float]
    """What each GPU drew, by its UUID."""
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

    def as_seen_by(self, viewer: Viewer) -> Status:
        """Return the status with as much of each command line as the viewer may read."""
        return self.status if self.full_status is None else seen_by(self.full_status, self.rights_of(viewer))

    def rights_of(self, viewer: Viewer) -> Viewer:
        """Return the viewer, who may read everything if the owner of the machine says so."""
        return EVERYTHING if self.commands_shown else viewer
