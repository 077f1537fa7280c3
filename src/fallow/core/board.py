"""What the daemon shows to whoever asks: one frozen value, made anew at every tick."""

from collections.abc import Mapping

from fallow.core.gpu_status import Status
from fallow.core.money import Prices
from fallow.core.protections import Protection
from fallow.core.value import value
from fallow.core.visibility import EVERYTHING, Viewer, seen_by


@value
class FillerView:
    """One filler's place."""

    name: str
    gpus: tuple[str, ...]
    """Labels, as people call them."""
    uuids: tuple[str, ...]
    phase: str
    """quiet, filled, yielding or backoff."""
    because: str
    for_s: float
    """Seconds in this phase."""
    pid: int | None
    yields: int
    last_yield_s: float | None


@value
class GuardView:
    """One guard."""

    name: str
    phase: str
    because: str
    uuids: tuple[str, ...] = ()
    """The GPUs that it watches."""


@value
class Counting:
    """A rule that counts the idleness, or the hang, of a job: how far it has come, and what it would do when."""

    rule: str
    subject: str
    uuids: tuple[str, ...]
    processes: tuple[str, ...]
    """Its processes, as the journal's keys have them."""
    fault: str
    """idle or stuck."""
    for_s: float
    """For how long the fault has been witnessed; 0 while there is none."""
    action: str
    """What follows if it goes on: report, warn, ask, kill or nothing."""
    in_s: float
    """In how many seconds of it."""
    begins_in_s: float = 0.0
    """A job that is new is not counted for so long."""
    refused: str | None = None
    """Why what was due is not done."""
    left_alone: str | None = None
    """The protection that keeps the rule from counting, with its end."""


@value
class Histogram:
    """Seconds, counted up to each bound; the bounds grow, and each count has those before it in it."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    total: int
    sum_s: float


@value
class Counts:
    """What has been counted since the daemon began."""

    activity_s: Mapping[tuple[str, str, str], float]
    """Witnessed seconds by UUID, activity and user."""
    yields: Mapping[str, Histogram]
    """How long yields took, by filler."""
    actions: Mapping[tuple[str, str], int]
    """Deeds by their kind and what came of them: done, failed, refused, dry_run."""
    unknowns: Mapping[tuple[str, str], int]
    """Ticks at which a reading was not known, by its name and why."""


@value
class Board:
    """The machine as the daemon sees it now."""

    status: Status
    """As anybody may see it."""
    fillers: tuple[FillerView, ...]
    guards: tuple[GuardView, ...]
    protections: tuple[Protection, ...]
    counts: Counts
    started_wall_s: float
    config: str | None
    """The config that is in force."""
    is_dry_run: bool
    full_status: Status | None = None
    """With whole command lines, for those who may read them; None where `sight` is all that there is."""
    commands_shown: bool = False
    """Whether the owner of the machine shows command lines to everybody."""
    counting: tuple[Counting, ...] = ()
    """What the idle rules count."""
    prices: Prices = Prices()
    """What an hour of a card costs, by the config that is in force."""

    def as_seen_by(self, viewer: Viewer) -> Status:
        """The machine, with as much of each command line as the viewer may read."""
        return self.status if self.full_status is None else seen_by(self.full_status, self.rights_of(viewer))

    def rights_of(self, viewer: Viewer) -> Viewer:
        """The viewer, who may read everything where the owner of the machine says so."""
        return EVERYTHING if self.commands_shown else viewer
