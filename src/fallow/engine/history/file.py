"""The one connection of this process to history.db, for all threads that write or read history."""

from collections.abc import Callable
from threading import RLock

from fallow.core.interval import Card
from fallow.engine.history.collector import Batch
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.sqlite_file import BUSY_S, OwnFile, says_damaged
from fallow.engine.history.store import FILE_NAME, SCHEMA, LastWritten, Store


class HistoryFile:
    """The file of history; any thread may use it, under its lock."""

    def __init__(self, folder: str, tell: Callable[[str], None]) -> None:
        self.lock = RLock()
        self._tell = tell
        self._file = OwnFile(FILE_NAME, lambda: folder, SCHEMA, BUSY_S)
        self._store: Store | None = None
        self._written: LastWritten = {}
        self._cards: dict[str, Card] = {}

    def write(self, batch: Batch) -> Store:
        """Write the whole batch or nothing; into a file that was just opened also all GPUs that were ever seen."""
        with self.lock:
            self._cards.update(batch.cards)
            database = self._file.database()
            if self._store is None or self._store.database is not database:
                self._store = Store(database, self._written)
                batch = batch._replace(cards=self._cards)
            self._store.write(batch)
            return self._store

    def past(self) -> HistoryReader:
        """Return a reader for this process, which reads the file as it is at each call."""
        with self.lock:
            return HistoryReader(self._file.database, self.lock)

    def failed(self, error: Exception) -> bool:
        """Use a new connection; return whether the file is damaged, and a new one begins."""
        with self.lock:
            self._file.close()
            if not says_damaged(error):
                return False
            try:
                kept = self._file.set_aside()
            except OSError:
                return False  # it stays, and so does the reason why nothing is kept
            if kept is not None:
                self._tell(f"history was damaged ({error}): it is kept as {kept}, and a new one begins")
            self._written.clear()
            return True

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._file.close()
