"""Turn history into a report: what was witnessed in a span of time, ready to be added up."""

from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING

from fallow.core.activity import Activity
from fallow.core.days import day_edges_ms
from fallow.core.interval import Card, Interval
from fallow.core.money import Prices
from fallow.core.visibility import EVERYTHING, Viewer, interval_seen_by
from fallow.policies.cost import Bill, By, bill

if TYPE_CHECKING:
    from fallow.engine.history.reader import HistoryReader
    from fallow.engine.machine.daemon_client import RemoteHistory

_DAY_MS = 86_400_000
_FINEST = 1000


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
    ) -> None:
        """`viewer`: whose command lines are shown; what is stored may be older than the rule on who reads what."""
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
