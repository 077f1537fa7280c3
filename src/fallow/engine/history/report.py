"""Turn history into a report: what was witnessed in a span of time, ready to be added up."""

import os
from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING

from fallow.core.activity import Activity
from fallow.core.days import day_edges_ms
from fallow.core.interval import Card, Interval
from fallow.core.money import Prices
from fallow.core.visibility import EVERYTHING, Viewer, interval_seen_by
from fallow.policies.cost import Bill, By, bill
from fallow.policies.watched import HourOfWeek, Quarter, gaps, hours_of_week

if TYPE_CHECKING:
    from fallow.engine.client.daemon_client import RemoteHistory
    from fallow.engine.history.reader import HistoryReader

_DAY_MS = 86_400_000
_FINEST = 1000
_LEAST_GAP_MS = 60_000  # the last seconds are not written yet


class Report:
    """What the GPUs did in a span of time, and what it cost. Without history, nothing was witnessed."""

    def __init__(
        self,
        past: "HistoryReader | RemoteHistory | None",
        since_s: float,
        until_s: float,
        prices: Prices,
        zone: tzinfo,
        viewer: Viewer = EVERYTHING,
        source: str = "the history of the daemon",
        made_s: float | None = None,
    ) -> None:
        """`viewer`: whose command lines are shown; what is stored may be older than the rule on who reads what.

        `source`: where the history was read; `made_s`: when, if not at the end of the span.
        """
        self.source = source
        self.made_s = until_s if made_s is None else made_s
        self.host = os.uname().nodename
        self.since_s = since_s
        self.until_s = until_s
        self.prices = prices
        self.zone = zone
        self._past = past
        self._viewer = viewer
        self._bills: dict[By, Bill] = {}
        self._since_ms, self._until_ms = round(since_s * 1000), round(until_s * 1000)

    @cached_property
    def cards(self) -> dict[str, Card]:
        """Return the GPUs of which something was witnessed, by UUID, in order."""
        everything = {} if self._past is None else self._past.cards()
        seen = {interval.uuid for interval in self.intervals}
        return {uuid: card for uuid, card in everything.items() if uuid in seen}

    @cached_property
    def intervals(self) -> list[Interval]:
        """Return what was witnessed, summed up by local day."""
        edges_ms = day_edges_ms(self._since_ms, self._until_ms, self.zone)
        found = [] if self._past is None else self._past.tallies(edges_ms)
        return [interval_seen_by(each, self._viewer) for each in found]

    def bill(self, by: By) -> Bill:
        """Return the hours and their cost."""
        if by not in self._bills:
            self._bills[by] = bill(self.intervals, by, self.cards, self.prices, self.zone)
        return self._bills[by]

    @cached_property
    def quarters(self) -> list[Quarter]:
        """Return how long all GPUs together did what in each quarter of an hour."""
        return [] if self._past is None else self._past.quarters(self._since_ms, self._until_ms)

    @cached_property
    def hours_of_week(self) -> dict[tuple[int, int], HourOfWeek]:
        """Return what was done in each hour of the week, by weekday and hour of local time."""
        return hours_of_week(self.quarters, self.zone)

    @cached_property
    def gaps_s(self) -> list[tuple[float, float]]:
        """Return the times in which nobody watched, to the quarter of an hour."""
        found = gaps(self.quarters, self._since_ms, self._until_ms)
        return [(begin_ms / 1000, end_ms / 1000) for begin_ms, end_ms in found if end_ms - begin_ms >= _LEAST_GAP_MS]

    @property
    def observed_share(self) -> float:
        """Return which part of the time of its GPUs was watched, 0..1."""
        whole_ms = len(self.cards) * (self._until_ms - self._since_ms)
        return min(1.0, self.bill(By.GPU).total.observed_ms / whole_ms) if whole_ms > 0 else 0.0

    @property
    def last_day_ms(self) -> tuple[int, int]:
        """Return the last day of the span, or all of it if it is shorter."""
        return max(self._since_ms, self._until_ms - _DAY_MS), self._until_ms

    def strips(self) -> list[tuple[Card, list[tuple[int, int, Activity]]]]:
        """Return what each GPU did on that last day: from when, until when, and what; as fine as a screen shows."""
        if self._past is None:
            return []
        begin_ms, end_ms = self.last_day_ms
        finest_ms = (end_ms - begin_ms) // _FINEST
        return [(card, self._past.colours(uuid, begin_ms, end_ms, finest_ms)) for uuid, card in self.cards.items()]
