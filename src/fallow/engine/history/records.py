"""What a process writes down and shows to whoever asks: journal and history, each with one connection."""

from collections.abc import Callable

from fallow.core.findings import Event
from fallow.engine.history.journal import Journal
from fallow.engine.history.reader import HistoryReader


class Records:
    """For any thread. What cannot be read now is a FallowError that says why."""

    def __init__(self, journal: Journal, past: Callable[[], HistoryReader | None]) -> None:
        """`past` is asked for each time, since history may be opened anew with another config."""
        self._journal = journal
        self.past = past
        """History, for one question; whoever asked closes it. None if none is kept."""

    def events(self, key: str | None, limit: int) -> list[Event]:
        """The last events about a GPU or a process, newest first; without a key, about anything."""
        return self._journal.last(key, limit)
