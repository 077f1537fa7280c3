"""Count since the start of the daemon: seconds by activity and user, energy, yields, actions, unknown readings."""

from bisect import bisect_left

from fallow.core.board import Counts, Histogram
from fallow.core.gpu import Gpu
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import NOBODY, SOMEBODY, parties_of
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.core.witnessed_time import witnessed_s

YIELD_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MOST_REASONS = 500
_OTHER_REASONS = ("any", "other reasons")
_MOST_USERS = 100
_NO_USERS = (NOBODY.user, SOMEBODY.user)
OTHER_USERS = "other"
"""All users beyond those that are counted by name."""
_READINGS = frozenset(name for name in fields(Gpu) if name not in ("index", "mig", "trouble"))


class Tally:
    """The counters. Only the main thread changes them; what `counts` returns never changes."""

    def __init__(self, longest_gap_s: float = 3.0) -> None:
        self.longest_gap_s = longest_gap_s
        self._seconds: dict[tuple[str, str, str], float] = {}
        self._energy_j: dict[str, float] = {}
        self._yields: dict[str, list[float]] = {}
        self._actions: dict[tuple[str, str], int] = {}
        self._unknowns: dict[tuple[str, str], int] = {}
        self._users: set[str] = set()
        self._before_s: float | None = None

    def witness(self, status: Status, at_s: float) -> None:
        """Count one tick. A gap counts zero."""
        passed_s = witnessed_s(self._before_s, at_s, self.longest_gap_s)
        self._before_s = at_s
        for gpu in status.gpus:
            if isinstance(gpu.uuid, str):
                self._add_seconds(gpu.uuid, gpu, passed_s)
                if gpu.mig is None and not isinstance(gpu.power_w, Unknown):
                    self._energy_j[gpu.uuid] = self._energy_j.get(gpu.uuid, 0.0) + gpu.power_w * passed_s
            self._add_unknowns(gpu)

    def action(self, kind: str, result: str) -> None:
        """Count an action and its outcome: done, failed, refused or dry_run."""
        key = (kind, result)
        self._actions[key] = self._actions.get(key, 0) + 1

    def yielded(self, filler: str, seconds: float) -> None:
        """Count a yield, and how long it took."""
        # For each bound how many took no longer, and for all their number and their sum.
        row = self._yields.setdefault(filler, [0.0] * (len(YIELD_BOUNDS_S) + 2))
        for place in range(bisect_left(YIELD_BOUNDS_S, seconds), len(YIELD_BOUNDS_S)):
            row[place] += 1
        row[-2] += 1
        row[-1] += seconds

    def counts(self) -> Counts:
        """Return all counts as they are now."""
        yields = {
            name: Histogram(YIELD_BOUNDS_S, tuple(int(count) for count in row[:-2]), int(row[-2]), row[-1])
            for name, row in self._yields.items()
        }
        return Counts(dict(self._seconds), dict(self._energy_j), yields, dict(self._actions), dict(self._unknowns))

    def _add_seconds(self, uuid: str, gpu: GpuStatus, passed_s: float) -> None:
        """Add seconds. Users who hold a GPU together share its time, so that its seconds add up to the time seen."""
        users = sorted({self._counted_as(party.user) for party in parties_of(gpu)})
        activity, share_s = gpu.activity.value, passed_s / len(users)
        for user in users:
            key = (uuid, activity, user)
            self._seconds[key] = self._seconds.get(key, 0.0) + share_s

    def _counted_as(self, user: str) -> str:
        """Return the name under which a user is counted: only the first ones have their own."""
        if user in _NO_USERS:
            return user
        if user not in self._users and len(self._users) >= _MOST_USERS:
            return OTHER_USERS
        self._users.add(user)
        return user

    def _add_unknowns(self, gpu: Gpu) -> None:
        for name, reading in vars(gpu).items():  # fields that were not read may be missing here, and do not count
            if type(reading) is Unknown and reading.asked and name in _READINGS:
                key = (name, reading.why)
                if key not in self._unknowns and len(self._unknowns) >= _MOST_REASONS:
                    key = _OTHER_REASONS
                self._unknowns[key] = self._unknowns.get(key, 0) + 1
