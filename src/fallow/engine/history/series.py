"""What GPUs did over the last hour, day, week or month, in equal steps: for plots.

A step holds the means of what was read in it, how long each activity was seen, what the idle and stuck time of it
cost, and who held the GPUs. What was not read or not seen is None or missing, never zero.

Of a user, a job or an owner, a step holds only GPUs that they held in it, and only their share of the time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from fallow.core.activity import UNUSED, Activity
from fallow.core.interval import NOBODY, Card, Party
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.samples import Sample
from fallow.policies.cost import shared_out

_HOUR_MS = 3_600_000
READINGS = ("utilization", "memory_bytes", "power_w", "temperature_c")
"""The readings of a step, as `Sample` names them."""

Matches = Callable[[Party], bool]
"""Tells whether a party is the user, job or owner that is asked for."""


@value
class PlotSpan:
    """A span of time that can be plotted, and how long its steps are."""

    name: str
    seconds: int
    step_s: int


SPANS = {
    span.name: span
    for span in (
        PlotSpan("1h", 3600, 30),
        PlotSpan("24h", 86_400, 600),
        PlotSpan("7d", 7 * 86_400, 3600),
        PlotSpan("30d", 30 * 86_400, 4 * 3600),
    )
}


@value
class Step:
    """What was read and seen in one step."""

    begin_ms: int
    end_ms: int
    gpus: int
    """How many GPUs were seen in it."""
    utilization: float | None = None
    memory_bytes: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    spent_ms: Mapping[Activity, int] = {}
    """How long all GPUs together did what."""
    cost: float | None = None
    """What the idle and stuck time cost; None if nothing was seen, or if a GPU of it has no price."""
    watched_ms: int = 0
    """For how long of it somebody looked, on the GPU that was seen longest."""
    users: tuple[str, ...] = ()
    """Who held the GPUs, the longest first; `?` is an unknown user."""


def steps_of(
    past: HistoryReader | None,
    uuids: Iterable[str],
    until_ms: int,
    span: PlotSpan,
    prices: Prices,
    matches: Matches | None = None,
) -> tuple[Step, ...]:
    """Return the steps of the span that ends at `until_ms`, in order."""
    step_ms = span.step_s * 1000
    first_ms = until_ms // step_ms * step_ms - span.seconds * 1000 + step_ms
    sums = [_Sum(first_ms + number * step_ms, step_ms) for number in range(span.seconds // span.step_s)]
    if past is not None:
        cards = past.cards()
        for uuid in uuids:
            if uuid in cards:
                _add_gpu(sums, past, cards[uuid], until_ms, span, prices, matches)
    return tuple(one.step(until_ms) for one in sums)


def _add_gpu(
    sums: "list[_Sum]",
    past: HistoryReader,
    card: Card,
    until_ms: int,
    span: PlotSpan,
    prices: Prices,
    matches: Matches | None,
) -> None:
    first_ms, step_ms, price = sums[0].begin_ms, span.step_s * 1000, prices.of(card)
    held: set[int] = set()
    watched_ms: dict[int, float] = {}
    for begin_ms, end_ms, seen_ms, activity, parties in past.spent(card.uuid, first_ms, until_ms, step_ms):
        shares = [(party.user, ms) for party, ms in shared_out(seen_ms, parties) if _fits(party, matches)]
        for number, part in _parts(begin_ms, end_ms, first_ms, step_ms, len(sums)):
            watched_ms[number] = watched_ms.get(number, 0.0) + seen_ms * part
            if shares:
                held.add(number)
                sums[number].spend(activity, shares, part, price)
    for number in held:
        sums[number].gpus += 1
    for number, ms in watched_ms.items():
        sums[number].watched_ms = max(sums[number].watched_ms, ms)
    for sample in past.samples(card.uuid, first_ms // 1000, until_ms // 1000 + 1, span.step_s):
        number = (sample.at_s * 1000 - first_ms) // step_ms
        if 0 <= number < len(sums) and (matches is None or number in held):
            sums[number].read(sample)


def _fits(party: Party, matches: Matches | None) -> bool:
    return matches is None or (party != NOBODY and matches(party))


def _parts(begin_ms: int, end_ms: int, first_ms: int, step_ms: int, number: int) -> Sequence[tuple[int, float]]:
    """Return which steps an interval reaches into, and which part of it lies in each."""
    first, last = (begin_ms - first_ms) // step_ms, (end_ms - 1 - first_ms) // step_ms
    if first == last and 0 <= first < number:
        return ((first, 1.0),)
    found, span_ms = [], max(1, end_ms - begin_ms)
    for at in range(max(0, first), min(number, last + 1)):
        inside_ms = min(end_ms, first_ms + (at + 1) * step_ms) - max(begin_ms, first_ms + at * step_ms)
        if inside_ms > 0:
            found.append((at, inside_ms / span_ms))
    return found


class _Sum:
    """What was added up of one step so far."""

    def __init__(self, begin_ms: int, step_ms: int) -> None:
        self.begin_ms = begin_ms
        self.gpus = 0
        self.watched_ms = 0.0
        self._step_ms = step_ms
        self._readings = {name: [0.0, 0.0] for name in READINGS}
        self._spent: dict[Activity, float] = {}
        self._users: dict[str, float] = {}
        self._wasted_ms: dict[float | Unknown, float] = {}
        """The idle and stuck time of GPUs of each price."""

    def read(self, sample: Sample) -> None:
        for name, sums in self._readings.items():
            found = getattr(sample, name)
            if found is not None:
                sums[0] += found
                sums[1] += 1

    def spend(
        self, activity: Activity, shares: Iterable[tuple[str, int]], part: float, price: float | Unknown
    ) -> None:
        """Add a part of the time of these users."""
        whole_ms, users = 0.0, self._users
        for user, share_ms in shares:
            ms = share_ms * part
            whole_ms += ms
            if user != NOBODY.user:
                users[user] = users.get(user, 0.0) + ms
        self._spent[activity] = self._spent.get(activity, 0.0) + whole_ms
        if activity in UNUSED:
            self._wasted_ms[price] = self._wasted_ms.get(price, 0.0) + whole_ms

    def step(self, until_ms: int) -> Step:
        means = {name: total / count if count else None for name, (total, count) in self._readings.items()}
        return Step(
            begin_ms=self.begin_ms,
            end_ms=max(self.begin_ms + 1, min(until_ms, self.begin_ms + self._step_ms)),
            gpus=self.gpus,
            **means,
            spent_ms={activity: round(self._spent[activity]) for activity in Activity if activity in self._spent},
            cost=self._cost(),
            watched_ms=round(self.watched_ms),
            users=tuple(sorted(self._users, key=lambda user: (-self._users[user], user))),
        )

    def _cost(self) -> float | None:
        costs = [None if isinstance(price, Unknown) else price * ms for price, ms in self._wasted_ms.items()]
        known = [cost for cost in costs if cost is not None]
        return sum(sorted(known)) / _HOUR_MS if self._spent and len(known) == len(costs) else None
