"""The journal: what was found, what was done about it, and what came of that.

SQLite, every row synced before it is reported: whoever is killed at any moment, every row that was written is there
afterwards. One connection in a process, shared by its threads; the file is never opened beside it, because closing
any descriptor of a file drops all locks that the process has on it. It has no write-ahead log: rows are rare, and
there is one file less that somebody can take away, and none that a close could delete under somebody else.

What cannot be written now waits in memory (some hundred rows), and is written as soon as it can be. A file that was
taken away or is damaged is replaced by a new one; the damaged one is kept beside it. Each is told once, with the
time since when rows are missing. Policies do not hang on any of it.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from threading import RLock
from typing import TYPE_CHECKING

from fallow.actuators.files import state_folder
from fallow.core.errors import FallowError
from fallow.core.findings import Event, Evidence, Verdict
from fallow.core.reasons import Reason
from fallow.engine.history import journal_file, sqlite_file
from fallow.engine.history.journal_file import FILE_NAME, Row

if TYPE_CHECKING:
    from fallow.engine.machine.world import World

__all__ = ["Event", "Journal", "open_journal"]

_MOST_ROWS = 20_000
_MOST_WAITING = 500
_PATIENCE_S = 2.0  # with somebody else who writes; once that was in vain, the next rows wait less
_LESS_PATIENCE_S = 0.05


def open_journal(world: "World", tell: Callable[[str], None]) -> "Journal":
    """The journal of whoever we are. Where it has no place, that is told, and nothing is kept."""
    try:
        folder: str | FallowError = world.state_folder
    except FallowError as error:
        folder = error
    return Journal(folder, world.clock.wall_s, tell)


class Journal:
    """The journal of one user on this machine. Its methods may be called by any thread."""

    def __init__(
        self,
        folder: str | FallowError,
        wall_s: Callable[[], float],
        tell: Callable[[str], None],
        most_rows: int = _MOST_ROWS,
    ) -> None:
        """`tell` gets a sentence when nothing can be kept, and one when it can again."""
        self._folder = folder
        self._wall_s = wall_s
        self._tell = tell
        self._most_rows = most_rows
        self._rows = 0
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._path = ""
        self._waiting: deque[Row] = deque(maxlen=_MOST_WAITING)
        self._lost = 0
        self._since_s: float | None = None
        """Since when rows wait, while they do."""
        self._told = ""
        self._was_open = False
        self._try_to(lambda: None)

    def verdict(self, verdict: Verdict, keys: Iterable[str]) -> None:
        """What was found, with the readings that say so."""
        self._write("verdict", verdict.subject, verdict.finding, verdict.because, verdict.evidence, keys)

    def action(self, subject: str, action: str, because: str | Reason, keys: Iterable[str]) -> None:
        """What is about to be done, written before it is."""
        self._write("action", subject, action, because, (), keys)

    def outcome(self, subject: str, action: str, words: str, keys: Iterable[str]) -> None:
        """What came of it."""
        self._write("outcome", subject, action, words, (), keys)

    def refusal(self, subject: str, action: str, why: str | Reason, keys: Iterable[str]) -> None:
        """What was not allowed, and why."""
        self._write("refusal", subject, action, why, (), keys)

    def last(self, key: str | None, most: int = 30) -> list[Event]:
        """The last events about a GPU or a process, newest first; without a key, about anything.

        Without its birth, a process is the last one of that number. FallowError if it cannot be read now.
        """
        found: list[Event] = []
        with self._lock:
            if not self._try_to(lambda: found.extend(journal_file.last(self._open_database(), key, most))):
                raise FallowError(self._told)
        return found

    def rest_power_w(self) -> dict[str, float]:
        """What each card is known to draw at rest."""
        found: dict[str, float] = {}
        self._try_to(lambda: found.update(journal_file.rest_power_w(self._open_database())))
        return found

    def remember_rest_power(self, uuid: str, watts: float) -> None:
        """Keep what was learned of a card."""
        self._try_to(lambda: journal_file.remember_rest_power(self._open_database(), uuid, watts))

    def close(self) -> None:
        """Write what waits, if that is possible now; what is not is told."""
        with self._lock:
            if self._waiting:
                self._try_to(self._write_waiting)
            missing = len(self._waiting) + self._lost
            if missing and self._was_open:
                self._tell(f"{_rows(missing)} of the journal could not be written: {self._told}")
            self._waiting.clear()
            self._let_go()

    def _write(
        self, kind: str, subject: str, finding: str, because: str | Reason, evidence: Evidence, keys: Iterable[str]
    ) -> None:
        reason = because if isinstance(because, Reason) else None
        row = Row(self._wall_s(), kind, subject, finding, str(because), evidence, tuple(sorted(set(keys))), reason)
        with self._lock:
            self._lost += len(self._waiting) == _MOST_WAITING
            self._waiting.append(row)
            self._try_to(self._write_waiting)

    def _write_waiting(self) -> None:
        """All rows that wait, in one transaction; again in a new file, if this one was taken away meanwhile."""
        while True:
            database = self._open_database()
            journal_file.write(database, self._waiting)
            if self._is_there():
                break
        self._rows += len(self._waiting)
        self._waiting.clear()
        if self._rows > self._most_rows // 40:
            self._rows = 0
            journal_file.trim(database, self._most_rows)

    def _try_to(self, action: Callable[[], object]) -> bool:
        """Whether it could be done; whatever comes of it, the caller goes on."""
        with self._lock:
            for last_try in (False, True):
                try:
                    self._open_database()
                    action()
                except (OSError, sqlite3.Error, FallowError) as error:
                    if not self._failed(error, last_try=last_try):
                        return False
                else:
                    self._went_well()
                    return True
            return False

    def _failed(self, error: Exception, *, last_try: bool) -> bool:
        """Whether to try again at once, in a new file. Each reason is told once; the next row tries again anyway."""
        damaged = sqlite_file.says_damaged(error)
        emptied = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
        same = self._is_there()
        self._let_go()
        if not last_try and (emptied or (damaged and not same)):
            return True  # its tables are made anew; or somebody else has set it aside already
        if damaged and self._set_aside(error) and not last_try:
            return True
        if self._since_s is None:
            self._since_s = self._wall_s()
        if isinstance(self._folder, FallowError):
            self._say_once(f"no journal is kept: {error}")
        elif not self._was_open:
            self._say_once(f"no journal is kept in {self._folder} for now: {error}")
        elif not damaged or last_try:
            self._say_once(f"the journal in {self._folder} cannot be written now: {error}")
        return False

    def _went_well(self) -> None:
        """After trouble: that it is over, and whether it cost anything."""
        if self._since_s is None or self._waiting or self._database is None:
            return
        since = sqlite_file.clock_time(self._since_s)
        self._tell(
            f"the journal is written again{f'; {_rows(self._lost)} since {since} are lost' * bool(self._lost)}"
        )
        self._database.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_S * 1000):d}")
        self._since_s, self._lost, self._told = None, 0, ""

    def _set_aside(self, error: Exception) -> bool:
        """A damaged journal is kept for whoever can mend it, and a new one begins; whether that can be."""
        try:
            kept = sqlite_file.set_aside(self._path)
        except OSError as refusal:
            self._say_once(f"the journal in {self._folder} is damaged ({error}), and stays: {refusal.strerror}")
            return False
        when = sqlite_file.clock_time(self._wall_s())
        self._tell(f"the journal was damaged ({error}): rows from before {when} are in {kept}, and a new one begins")
        self._was_open = False  # the new one is no surprise
        return True

    def _say_once(self, sentence: str) -> None:
        if sentence != self._told:
            self._told = sentence
            self._tell(sentence)

    def _open_database(self) -> sqlite3.Connection:
        if self._database is not None and not self._is_there():
            self._let_go()
        if self._database is None:
            if isinstance(self._folder, FallowError):
                raise self._folder
            folder = state_folder.prepared(self._folder)
            self._path = state_folder.private_file(folder, FILE_NAME)
            before, self._file = self._file, sqlite_file.identity(self._path)
            patience_s = _PATIENCE_S if self._since_s is None else _LESS_PATIENCE_S
            self._database, new = journal_file.connected(self._path, patience_s)
            if self._was_open and (new or before != self._file):
                when = sqlite_file.clock_time(self._wall_s())
                self._tell(f"the journal was taken away: rows from before {when} are gone, and it begins anew")
            self._was_open = True
        return self._database

    def _is_there(self) -> bool:
        """Whether what we have open is what others find under its name."""
        return self._file is not None and sqlite_file.identity(self._path) == self._file

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
