"""The one connection of this process to history.db, for all threads that write or read history.

Changes of the file by others are noticed before each use, and after each write. If it was removed or emptied, a new
one begins; if it is damaged, it is set aside. Each is reported, with the time before which something is missing.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from fallow.actuators.files import state_folder
from fallow.core.interval import Card
from fallow.engine.history.collector import Batch
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.sqlite_file import NotOurs, clock_time, says_damaged, set_aside
from fallow.engine.history.store import FILE_NAME, LastWritten, Newest, Store


class HistoryFile:
    """The file of history; any thread may use it, under its lock."""

    def __init__(self, folder: str, tell: Callable[[str], None], wall_s: Callable[[], float]) -> None:
        self.lock = RLock()
        self._folder = folder
        self._tell = tell
        self._wall_s = wall_s
        self._path = ""
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        """The file that was written last, whether it is open or not."""
        self._written: LastWritten = {}
        self._newest: Newest | None = None
        self._cards: dict[str, Card] = {}

    def write(self, batch: Batch) -> Store:
        """Write the whole batch or nothing; into a new file also all GPUs that were ever seen."""
        with self.lock:
            self._cards.update(batch.cards)
            try:
                return self._write(batch)
            except (sqlite3.Error, NotOurs) as error:
                if not self.failed(error):
                    raise
                return self._write(batch)

    def past(self) -> HistoryReader:
        """Return a reader for this process, which reads the file as it is at each call."""
        with self.lock:
            return HistoryReader(lambda: self.store().database, self.lock)

    def store(self) -> Store:
        """Return the file as others find it, opened if necessary."""
        with self.lock:
            return self._opened()

    def failed(self, error: Exception) -> bool:
        """Use a new connection, and if the file is damaged a new file; return where the damaged one is."""
        with self.lock:
            replaced = self._store is not None and self._store.is_taken_away
            self.close()
            if not says_damaged(error) or replaced:
                return replaced
            try:
                kept = set_aside(self._path)
            except OSError:
                return False  # it stays, and so does the reason why nothing is kept
            when = clock_time(self._wall_s())
            self._tell(f"history was damaged ({error}): what was before {when} is in {kept}, and a new one begins")
            self._forget()
            return True

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            if self._store is not None:
                with suppress(sqlite3.Error):
                    self._store.close()
                self._store = None

    def _write(self, batch: Batch) -> Store:
        while True:
            store = self.store()
            if store.may_be_another():
                if store.has_other_tables():
                    self.close()
                    continue
                self._notice_older_copy(store)
                batch = batch._replace(cards=self._cards)
            store.write(batch)
            if not store.is_taken_away:  # else it was written to a file that no reader finds
                self._file, self._newest = store.file, store.newest or self._newest
                return store

    def _opened(self) -> Store:
        if self._store is not None and self._store.is_taken_away:
            self.close()
        if self._store is None:
            folder = state_folder.prepared(self._folder)
            self._path = state_folder.private_file(folder, FILE_NAME)
            self._store = Store(self._path, self._written)
            if self._file is not None and self._store.was_empty:
                self._say_it_was_taken_away()
        return self._store

    def _say_it_was_taken_away(self) -> None:
        when = clock_time(self._wall_s())
        self._tell(f"history was taken away: what was before {when} is gone, and a new one begins")
        self._forget()

    def _forget(self) -> None:
        """Forget what was written: a new file begins."""
        self._file = self._newest = None
        self._written.clear()

    def _notice_older_copy(self, store: Store) -> None:
        """Report rows that a copy lacks which was written over the file, or put in its place.

        What was written goes on in it: an interval that was copied grows there, and is not counted twice.
        """
        since_ms = None if self._newest is None else store.missing_since_ms(self._newest)
        if since_ms == 0:
            self._say_it_was_taken_away()
        elif since_ms is not None:
            self._newest = None
            since, when = clock_time(since_ms / 1000), clock_time(self._wall_s())
            self._tell(f"history was replaced by an older copy: what was written between {since} and {when} is gone")
