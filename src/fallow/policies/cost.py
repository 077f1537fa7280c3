"""Add up what idle GPUs cost: the hours of each activity, by GPU, user, job, day or week, and the price of idle ones.

    observed = free + filled + busy + idle + stuck + unknown      of each GPU, to the millisecond
    cost     = (idle + stuck) * price of that GPU                 somebody held it, and nothing was done

Free time costs nothing, since nobody kept others out. Nor did a filler, which yields: filled time belongs to nobody.
Unknown time is never called idle, so it costs nothing either.

If several users hold one GPU at once, its time is divided, so that sums stay correct: equally among the users, and
each user's share equally among the jobs of that user. The number of processes of a job makes no difference. What
does not divide goes to the first, a millisecond each. Time of nobody is that of `-`, of an unknown user that of
`?`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from fallow.core.activity import UNUSED, Activity
from fallow.core.days import day_edges_ms, day_of
from fallow.core.interval import NOBODY, Card, Interval, Party
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import value

_HOUR_MS = 3_600_000
_WELL_METERED = 0.95


class By(StrEnum):
    """What the hours are grouped by."""

    GPU = "gpu"
    USER = "user"
    JOB = "job"
    DAY = "day"
    WEEK = "week"


NAME_FIELDS = {
    By.GPU: ("gpu", "uuid", "name"),
    By.USER: ("user",),
    By.JOB: ("job", "user"),
    By.DAY: ("day",),
    By.WEEK: ("week",),
}
"""The fields of a report that name one of its lines."""


NOT_METERED = Unknown("no power was read in that time")


@value
class Line:
    """The time of one GPU, user, job, day or week; or of all of them, with no name."""

    name: tuple[str, ...]
    """The UUID of a GPU; a user; a job and its user; a day as 2026-11-15; a week as its Monday."""
    free_ms: int
    filled_ms: int
    busy_ms: int
    idle_ms: int
    stuck_ms: int
    unknown_ms: int
    cost: float | Unknown
    """The cost of the idle and stuck time; Unknown if a GPU of it has no price."""
    energy_mj: int = 0
    """What was drawn in the metered time."""
    metered_ms: int = 0
    """For how much of the observed time that is known."""

    @property
    def observed_ms(self) -> int:
        """Return the time of all activities together."""
        return self.free_ms + self.filled_ms + self.busy_ms + self.idle_ms + self.stuck_ms + self.unknown_ms

    @property
    def energy_j(self) -> float | Unknown:
        """Return the energy of the metered time; Unknown if there is none."""
        return self.energy_mj / 1000 if self.metered_ms else NOT_METERED

    @property
    def energy_is_partial(self) -> bool:
        """Return whether more was drawn than is known: some of the time was not metered."""
        return self.metered_ms < _WELL_METERED * self.observed_ms

    def ms(self, activity: Activity) -> int:
        """Return the time of one activity."""
        spent: int = getattr(self, f"{activity.value}_ms")
        return spent


@value
class Bill:
    """The lines, and their sum."""

    by: By
    lines: tuple[Line, ...]
    total: Line


def bill(intervals: Iterable[Interval], by: By, cards: Mapping[str, Card], prices: Prices, zone: tzinfo) -> Bill:
    """Return the hours and their cost: days and GPUs in order, the costliest users and jobs first, nobody last."""
    prices_by_uuid = {uuid: prices.of(card) for uuid, card in cards.items()}
    sums: dict[tuple[str, ...], _Sum] = {}
    total = _Sum()
    for interval in intervals:
        price = prices_by_uuid[interval.uuid]
        total.add(interval.activity, (interval.witnessed_ms, interval.energy_mj, interval.metered_ms), price)
        for name, share in _shares(interval, by, zone):
            found = sums.get(name)
            if found is None:
                found = sums[name] = _Sum()
            found.add(interval.activity, share, price)
    lines = [spent.line(name) for name, spent in sums.items()]
    match by:
        case By.GPU:
            order = {uuid: number for number, uuid in enumerate(cards)}
            lines.sort(key=lambda line: order[line.name[0]])
        case By.DAY | By.WEEK:
            lines.sort(key=lambda line: line.name)
        case By.USER | By.JOB:
            lines.sort(
                key=lambda line: (
                    line.name[0] == NOBODY.user,
                    -line.idle_ms - line.stuck_ms,
                    -line.observed_ms,
                    line.name,
                )
            )
    return Bill(by, tuple(lines), total.line(()))


def first_lines(told: Bill, most: int) -> tuple[Line, ...]:
    """Return the first lines of many users or jobs, and the rest as one line, so that the sums stay."""
    if told.by not in (By.USER, By.JOB) or len(told.lines) <= most:
        return told.lines
    kept, rest = told.lines[: most - 1], told.lines[most - 1 :]
    unpriced = next((line.cost for line in rest if isinstance(line.cost, Unknown)), None)
    cost = sum(line.cost for line in rest if not isinstance(line.cost, Unknown))
    times = {f"{activity.value}_ms": sum(line.ms(activity) for line in rest) for activity in Activity}
    name = (f"{len(rest)} more", *[""] * (len(rest[0].name) - 1))
    energy_mj, metered_ms = sum(line.energy_mj for line in rest), sum(line.metered_ms for line in rest)
    rest_cost = cost if unpriced is None else unpriced
    return (*kept, Line(name=name, cost=rest_cost, energy_mj=energy_mj, metered_ms=metered_ms, **times))


def shared_out(whole_ms: int, parties: tuple[Party, ...]) -> Iterator[tuple[Party, int]]:
    """Return the time of each party: equal for the users, and for the jobs of one user. The sum stays."""
    if len(parties) == 1:
        yield parties[0], whole_ms
        return
    users: dict[str, list[Party]] = {}
    for party in parties:
        users.setdefault(party.user, []).append(party)
    for own, ms in zip(users.values(), _equal_parts(whole_ms, len(users)), strict=True):
        yield from zip(own, _equal_parts(ms, len(own)), strict=True)


def week_of(day: str) -> str:
    """Return the Monday of the week of a day, both as 2026-11-15."""
    found = date.fromisoformat(day)
    return (found - timedelta(days=found.weekday())).isoformat()


def by_days(interval: Interval, zone: tzinfo) -> Iterator[tuple[str, int]]:
    """Return the time on each local day of the interval; in proportion if not all of it was witnessed."""
    told_ms, span_ms = 0, max(1, interval.end_ms - interval.begin_ms)
    for day, end_ms in _days(interval.begin_ms, interval.end_ms, zone):
        until_ms = interval.witnessed_ms * (end_ms - interval.begin_ms) // span_ms
        yield day, until_ms - told_ms
        told_ms = until_ms


@lru_cache(maxsize=1024)
def _days(begin_ms: int, end_ms: int, zone: tzinfo) -> list[tuple[str, int]]:
    """Yield the local days of a span, each with the time at which it, or the span, ends."""
    edges = day_edges_ms(begin_ms, end_ms, zone)
    return [(day_of(day_begins_ms, zone).isoformat(), day_ends_ms) for day_begins_ms, day_ends_ms in pairwise(edges)]


_Amounts = tuple[int, int, int]
"""Time, energy and the time for which the energy is known."""


def _shares(interval: Interval, by: By, zone: tzinfo) -> Iterator[tuple[tuple[str, ...], _Amounts]]:
    """Return each line that the interval belongs to, and its share of it."""
    whole = (interval.witnessed_ms, interval.energy_mj, interval.metered_ms)
    match by:
        case By.GPU:
            yield (interval.uuid,), whole
        case By.DAY | By.WEEK:
            span_ms, passed_ms, before = max(1, interval.witnessed_ms), 0, (0, 0, 0)
            for day, ms in by_days(interval, zone):
                passed_ms += ms
                now = (passed_ms, whole[1] * passed_ms // span_ms, whole[2] * passed_ms // span_ms)
                yield (day if by is By.DAY else week_of(day),), _less(now, before)
                before = now
        case By.USER | By.JOB:
            divided = (shared_out(amount, interval.parties) for amount in whole)
            for (party, ms), (_, energy_mj), (_, metered_ms) in zip(*divided, strict=True):
                yield (party.user,) if by is By.USER else (party.job, party.user), (ms, energy_mj, metered_ms)


def _less(whole: _Amounts, part: _Amounts) -> _Amounts:
    return whole[0] - part[0], whole[1] - part[1], whole[2] - part[2]


def _equal_parts(whole_ms: int, count: int) -> Iterator[int]:
    each, left = divmod(whole_ms, count)
    return (each + (number < left) for number in range(count))


class _Sum:
    """The time and cost that were added up so far."""

    def __init__(self) -> None:
        self._ms = dict.fromkeys(Activity, 0)
        self._wasted_ms: dict[float, int] = {}
        self._unpriced: Unknown | None = None
        self._energy_mj = self._metered_ms = 0

    def add(self, activity: Activity, amounts: _Amounts, price: float | Unknown) -> None:
        ms, energy_mj, metered_ms = amounts
        self._ms[activity] += ms
        self._energy_mj += energy_mj
        self._metered_ms += metered_ms
        if activity in UNUSED and ms:
            if isinstance(price, Unknown):
                self._unpriced = price
            else:
                self._wasted_ms[price] = self._wasted_ms.get(price, 0) + ms

    def line(self, name: tuple[str, ...]) -> Line:
        times = {f"{activity.value}_ms": ms for activity, ms in self._ms.items()}
        priced = sum(price * ms for price, ms in sorted(self._wasted_ms.items())) / _HOUR_MS
        cost = priced if self._unpriced is None else self._unpriced
        return Line(name=name, cost=cost, energy_mj=self._energy_mj, metered_ms=self._metered_ms, **times)
