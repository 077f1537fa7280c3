"""Read history and journal for the page, and cache the results for a while.

An open page asks at every tick; a chart of one day, a thousand points wide, changes every minute and a half.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from fallow.core.errors import FallowError
from fallow.core.interval import NOBODY, SOMEBODY
from fallow.core.units import shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.journal import Event
from fallow.engine.history.report import Report
from fallow.engine.machine.local_zone import LocalZone
from fallow.interfaces.render.report_text import cost_for_people, time_spent
from fallow.interfaces.web.dashboard import user_address
from fallow.interfaces.web.day import Strips, strips
from fallow.policies.cost import By, Line

DAY_S = 86_400.0
_EVENTS_LAST_S = 2.0
_STRIPS_LAST_S = 90.0
_COSTS_LAST_S = (15.0, 300.0)
_COSTS_REST = 200.0
"""How much longer than it took to add up the cost it is kept, within these bounds: it uses no core."""
_USERS_SHOWN = 5
_EVENTS_READ = 200

T = TypeVar("T")


@value
class Cost:
    """The cost of idle GPUs: for the last day and the last week, and for the users who caused most of it."""

    spans: tuple[tuple[str, str, str, str], ...]
    """The span, its idle and stuck time, the share of it in the observed time, its price."""
    users: tuple[tuple[str, str, str, str], ...]
    """A user, the address of their page or nothing, their idle and stuck time of the week, its price."""
    priced: bool
    nothing: bool
    at: str
    """When it was added up, as a time of day."""


class CachedReads:
    """History and journal, as the page shows them. Call all methods in the event loop of the page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._kept: dict[str, tuple[float, object]] = {}
        self._cost_lasts_s = _COSTS_LAST_S[0]

    async def events(self) -> list[Event] | str:
        """Return the last events; a sentence if they cannot be read."""
        return await self._keep("events", _EVENTS_LAST_S, lambda: self._sources.events(None, _EVENTS_READ))

    async def strips(self, uuids: tuple[str, ...]) -> Strips | str:
        """Return the last day of these GPUs; a sentence if it cannot be read."""
        return await self._keep(f"strips {' '.join(uuids)}", _STRIPS_LAST_S, lambda: self._draw(uuids))

    async def cost(self) -> Cost | str:
        """Return the cost of idle GPUs; a sentence if it cannot be read."""
        return await self._keep("cost", self._cost_lasts_s, self._add_up)

    async def _keep(self, name: str, lasts_s: float, question: Callable[[], T]) -> T | str:
        now_s = self._sources.clock.monotonic_s()
        made_s, kept = self._kept.get(name, (-lasts_s, None))
        if now_s - made_s >= lasts_s:
            self._kept = {key: entry for key, entry in self._kept.items() if now_s - entry[0] < _COSTS_LAST_S[1]}
            kept = await self._or_why(question)
            self._kept[name] = now_s, kept
        return kept  # type: ignore[return-value]  # under this name only this question's answers are kept

    async def _or_why(self, question: Callable[[], T]) -> T | str:
        try:
            return await asyncio.to_thread(question)
        except FallowError as error:
            return str(error)

    def _draw(self, uuids: tuple[str, ...]) -> Strips:
        return strips(self._sources.past(), uuids, round(self._sources.clock.wall_s() * 1000), LocalZone())

    def _add_up(self) -> Cost:
        began_s = self._sources.clock.monotonic_s()
        day, week = self._sources.report(DAY_S), self._sources.report(7 * DAY_S)
        spans = tuple(
            _span(name, report.bill(By.GPU).total, report) for name, report in (("24 hours", day), ("7 days", week))
        )
        wasting = [line for line in week.bill(By.USER).lines if _wasted_ms(line)][:_USERS_SHOWN]
        users = tuple(
            (*_whose(line.name[0]), time_spent(_wasted_ms(line)), cost_for_people(line, week)) for line in wasting
        )
        took_s = self._sources.clock.monotonic_s() - began_s
        self._cost_lasts_s = min(_COSTS_LAST_S[1], max(_COSTS_LAST_S[0], _COSTS_REST * took_s))
        at = datetime.fromtimestamp(self._sources.clock.wall_s(), UTC).astimezone(LocalZone())
        return Cost(spans, users, priced=week.prices.given, nothing=not week.intervals, at=f"{at:%H:%M:%S}")


def _whose(user: str) -> tuple[str, str]:
    """Return the name of a line by user, and where it leads; a user may be called nobody."""
    words = {SOMEBODY.user: "not known", NOBODY.user: "no user"}
    return (words[user], "") if user in words else (shortened(user, 40), user_address(user))


def _wasted_ms(line: Line) -> int:
    return line.idle_ms + line.stuck_ms


def _span(name: str, total: Line, report: Report) -> tuple[str, str, str, str]:
    share = f"{_wasted_ms(total) / total.observed_ms:.0%}" if total.observed_ms else "none"
    price = cost_for_people(total, report) if not isinstance(total.cost, Unknown) else "?"
    return name, time_spent(_wasted_ms(total)), share, price
