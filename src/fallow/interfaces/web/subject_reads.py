"""Read reports and the journal for the pages about a GPU, job or user, and keep reports for a while."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from fallow.core.errors import FallowError
from fallow.core.findings import Event
from fallow.core.visibility import EVERYTHING
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.report import Report

DAYS = (("24 hours", 86_400.0), ("7 days", 7 * 86_400.0), ("30 days", 30 * 86_400.0))
WEEK = "7 days"
MONTH = "30 days"
_LASTS_S = 120.0
_EVENTS_OF_ONE = 200
"""More than the rows that are shown consist of: a stop is some ten events, and is shown whole."""

T = TypeVar("T")
Reports = dict[str, Report]
"""The reports by the names of their spans. They hold whole commands: what is shown of them is made less first."""


class SubjectReads:
    """Reads for these pages. Call all methods in the event loop of the page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._kept: tuple[float, Reports] | None = None

    async def reports(self) -> Reports | str:
        """Return the reports of the last day, week and month; a sentence if they cannot be read."""
        now_s = self._sources.clock.monotonic_s()
        if self._kept is None or not 0 <= now_s - self._kept[0] < _LASTS_S:
            try:
                self._kept = now_s, await asyncio.to_thread(self._read)
            except FallowError as error:
                return str(error)
        return self._kept[1]

    async def events(self, keys: Iterable[str]) -> list[Event] | str:
        """Return the last events under these keys, newest first."""
        try:
            return await asyncio.to_thread(self._journal, tuple(keys))
        except FallowError as error:
            return str(error)

    def _read(self) -> Reports:
        made = {name: self._sources.report(since_s, EVERYTHING) for name, since_s in DAYS}
        for report in made.values():
            _ = report.cards  # read here, in the thread
        return made

    def _journal(self, keys: tuple[str, ...]) -> list[Event]:
        found = {each.id: each for key in keys for each in self._sources.events(key, _EVENTS_OF_ONE)}
        return sorted(found.values(), key=lambda each: -each.id)[:_EVENTS_OF_ONE]
