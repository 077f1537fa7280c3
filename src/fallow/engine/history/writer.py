"""Write history: what each GPU did and who held it.

`record` is called once a tick and only adds to memory. Every 4 seconds a thread writes that, so a disk that is
slow, hangs or is full delays nothing else. A kill at any moment loses what was seen since, at most 5 seconds if a
write takes less than one. While nothing can be written, up to 20,000 intervals wait in memory, and are written when
there is room on the disk again.
"""

import sqlite3
from collections import deque
from collections.abc import Callable

from fallow.core.errors import FallowError
from fallow.core.gpu_status import Status
from fallow.engine.history.collector import Batch, Collector
from fallow.engine.history.file import HistoryFile
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.retention import HOUR_MS, age
from fallow.engine.history.sqlite_file import clock_time
from fallow.engine.history.store import Store
from fallow.engine.machine.background import Background

KEEP_DAYS = 90.0
_DAY_MS = 86_400_000
_FLUSH_S = 3.5  # so that looks 1 or 2 s apart, which are never exact, are written every 4 s
_LONGEST_GAP_S = 3.0
_LAST_WRITE_S = 5.0
_WELL_AFTER = 15  # how many writes must succeed: on a disk that is nearly full, some do and some do not


class HistoryWriter:
    """Writes history. Only one process may do so in a folder at a time."""

    def __init__(
        self,
        folder: str,
        tell: Callable[[str], None],
        *,
        keep_days: float = KEEP_DAYS,
        longest_gap_s: float = _LONGEST_GAP_S,
    ) -> None:
        """`tell` gets a sentence when history cannot be kept, and one when it can again."""
        self._tell = tell
        self._gatherer = Collector(longest_gap_s)
        self._writer = _Writer(folder, round(keep_days * _DAY_MS))
        self._flushed_s: float | None = None

    def record(self, status: Status) -> None:
        """Record one tick. Never waits for the disk and never fails because of it."""
        self._gatherer.take(status)
        if self._flushed_s is None or not 0 <= status.wall_s - self._flushed_s < _FLUSH_S:
            self._flushed_s = status.wall_s
            self._hand_over()
        self._pass_on()

    def change(self, keep_days: float, longest_gap_s: float) -> None:
        """Keep history for so long from now on, and count longer gaps as not witnessed. Never waits for the disk."""
        self._gatherer.change(longest_gap_s)
        self._writer.keep_ms = round(keep_days * _DAY_MS)

    def past(self) -> HistoryReader:
        """Return a reader of what was written; any thread may use it."""
        return self._writer.file.past()

    def settle(self, timeout_s: float = _LAST_WRITE_S) -> bool:
        """Wait until what was recorded is written; return whether it is."""
        settled = self._writer.wait(timeout_s)
        self._pass_on()
        return settled

    def close(self) -> None:
        """Write the rest if possible, and end; report since when it is missing if it is not."""
        if self.settle() or (self._writer.try_again() and self.settle()):
            self._hand_over()
        self._writer.end()
        self._writer.say_what_is_left()
        self._pass_on()

    def _hand_over(self) -> None:
        if self._writer.idle:
            self._writer.give(self._gatherer.batch())
        else:
            self._writer.try_again()

    def _pass_on(self) -> None:
        while self._writer.sentences:
            self._tell(self._writer.sentences.popleft())


class _Writer:
    """Writes one batch at a time beside the loop. A batch that could not be written stays until it can."""

    def __init__(self, folder: str, keep_ms: int) -> None:
        self.sentences: deque[str] = deque()
        self.file = HistoryFile(folder, self.sentences.append)
        self._folder = folder
        self.keep_ms = keep_ms
        self._aged_ms: int | None = None
        self._trouble = 0
        self._written_ms: int | None = None
        self._unwritten: Batch | None = None
        self._work = Background("history", self._try, self.sentences.append)

    @property
    def idle(self) -> bool:
        """Return whether a new batch can be given."""
        return self._unwritten is None

    def give(self, batch: Batch) -> None:
        """Write a batch. To be called only when idle."""
        self._unwritten = batch
        self._work.give(batch)

    def try_again(self) -> bool:
        """Try again to write what could not be written; while a write is under way, do nothing and return False."""
        if not self._work.is_idle:
            return False
        # Read after the thread was seen idle: what it has just written would be written twice.
        batch = self._unwritten
        if batch is not None:
            self._work.give(batch)
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait until the batch is written or has failed; return whether nothing is left."""
        self._work.finish(timeout_s)
        return self._unwritten is None

    def end(self) -> None:
        """Write what was given, and close the file; if the disk hangs, leave that to the kernel."""
        if self._work.end(_LAST_WRITE_S):
            self.file.close()

    def say_what_is_left(self) -> None:
        """Report since when history ends, if it was kept before and the rest could not be written."""
        if self._unwritten is not None and self._written_ms is not None:
            since = clock_time(self._written_ms / 1000)
            self.sentences.append(f"what was seen since {since} could not be written, and is not in history")

    def _try(self, batch: Batch) -> None:
        if self._write(batch):
            self._unwritten = None

    def _write(self, batch: Batch) -> bool:
        """Write the batch; return whether nothing is left of it."""
        try:
            store = self.file.write(batch)
            self._tend(store, batch.now_ms)
        except (OSError, sqlite3.Error, FallowError) as error:
            self._failed(error)
            return False
        except Exception as error:  # noqa: BLE001  an internal error would occur again, so the batch is dropped
            self._failed(error)
            self.sentences.append(f"some seconds of history are lost ({type(error).__name__}: {error}); it goes on")
            return True
        self._written_ms = batch.now_ms
        if batch.lost_ms is not None:
            since, until = (clock_time(at_ms / 1000) for at_ms in batch.lost_ms)
            self.sentences.append(f"history lacks some of what was seen between {since} and {until}: too much waited")
        self._trouble = max(0, self._trouble - 1)
        if self._trouble == 1:
            self._trouble = 0
            self.sentences.append("history is kept again")
        return True

    def _tend(self, store: Store, now_ms: int) -> None:
        """Make old history coarser once an hour; later if there is no room on the disk."""
        try:
            with self.file.lock:
                if self._aged_ms is None or not 0 <= now_ms - self._aged_ms < HOUR_MS:
                    self._aged_ms = now_ms
                    age(store, now_ms, self.keep_ms)
        except sqlite3.Error as error:
            store.forget()  # the crews of what was not done
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Report the error once. The file is opened again the next time: the problem may be over."""
        if self.file.failed(error):
            return  # it goes on in a new file, and that is said
        if not self._trouble:
            self.sentences.append(f"history is not kept in {self._folder} for now: {error}; all else goes on")
        self._trouble = _WELL_AFTER
