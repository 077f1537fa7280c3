"""The journal and the history of the daemon, as its readers get them: one connection each."""

from collections.abc import Callable

from fallow.core.findings import Event
from fallow.engine.history.journal import Journal
from fallow.engine.history.reader import HistoryReader


class Records:
    """Reads journal and history, from any thread. What cannot be read now raises FallowError with the reason."""

    def __init__(self, journal: Journal, past: Callable[[], HistoryReader | None]) -> None:
        """`past` is called for each question, since another config may open history again."""
        self._journal = journal
        self.past = past
        """Open history for one question; the caller closes it. None if none is kept."""

    def events(self, key: str | None, limit: int) -> list[Event]:
        """Return the last events about a GPU or a process, newest first; without a key, about anything."""
        return self._journal.last(key, limit)
