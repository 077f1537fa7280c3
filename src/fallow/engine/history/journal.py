"""The journal: verdicts, actions and outcomes.

It is SQLite, and every row is synced before it is reported: after a kill at any moment every written row is there. A
process has one connection, shared by its threads.

What cannot be written waits in memory (some hundred rows), and the daemon tries again every few seconds. A file that
cannot be read as ours is renamed once, and a new one begins. Policies do not depend on any of it.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from threading import RLock
from typing import TYPE_CHECKING

from fallow.core.errors import FallowError
from fallow.core.findings import Event, Evidence, Verdict
from fallow.core.reasons import Reason
from fallow.engine.history import journal_file, sqlite_file
from fallow.engine.history.journal_file import FILE_NAME, SCHEMA, Row
from fallow.engine.history.sqlite_file import OwnFile

if TYPE_CHECKING:
    from fallow.engine.machine.world import World

__all__ = ["Event", "Journal", "open_journal"]

_MOST_ROWS = 20_000
_MOST_WAITING = 500
_PATIENCE_S = 0.4  # for another process that writes; after one failure the next rows wait less
_LESS_PATIENCE_S = 0.05
_TURNS = 4  # ticks from one try to the next


def open_journal(world: "World", tell: Callable[[str], None]) -> "Journal":
    """Open the journal of this user. If there is no place for it, report that and keep nothing."""
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
        self._trim_each = max(1, most_rows // 40)
        self._lock = RLock()
        self._file = OwnFile(FILE_NAME, self._folder_path, SCHEMA, _PATIENCE_S)
        self._waiting: deque[Row] = deque(maxlen=_MOST_WAITING)
        self._lost = 0
        self._turns = 0
        self._since_s: float | None = None
        """Since when rows wait, while they do."""
        self._was_open = False
        self._told = ""
        self._try_to(self._file.database)

    def verdict(self, verdict: Verdict, keys: Iterable[str]) -> None:
        """Record what was found, with its readings."""
        self._write("verdict", verdict.subject, verdict.finding, verdict.reason, verdict.evidence, keys)

    def action(self, subject: str, action: str, why: Reason, keys: Iterable[str]) -> None:
        """Record an action, before it is taken."""
        self._write("action", subject, action, why, (), keys)

    def outcome(self, subject: str, action: str, words: str | Reason, keys: Iterable[str]) -> None:
        """Record the outcome of an action."""
        self._write("outcome", subject, action, words, (), keys)

    def refusal(self, subject: str, action: str, why: Reason, keys: Iterable[str]) -> None:
        """Record an action that was not allowed, and why."""
        self._write("refusal", subject, action, why, (), keys)

    def last(self, key: str | None, most: int = 30) -> list[Event]:
        """Return the last events about a GPU or a process, newest first; without a key, all.

        Without its birth, a process is the last one of that pid. Raise FallowError if it cannot be read now.
        """
        found: journal_file.Rows = []
        with self._lock:
            if not self._try_to(lambda: found.extend(journal_file.last(self._file.database(), key, most))):
                raise FallowError(self._told)
        return journal_file.events(found)  # a row may be long, and those who write need not wait for it

    def rest_power_w(self) -> dict[str, float]:
        """Return what each GPU draws at rest."""
        found: dict[str, float] = {}
        self._try_to(lambda: found.update(journal_file.rest_power_w(self._file.database())))
        return found

    def remember_rest_power(self, uuid: str, watts: float) -> None:
        """Store what a GPU draws at rest."""
        self._try_to(lambda: journal_file.remember_rest_power(self._file.database(), uuid, watts))

    def turn(self) -> None:
        """Try again to write what waits; called at each tick, because the next row may be hours away."""
        with self._lock:
            self._turns += 1
            if self._waiting and self._turns % _TURNS == 0:
                self._try_to(self._write_waiting)

    def close(self) -> None:
        """Write what waits, if possible; report what is lost."""
        with self._lock:
            if self._waiting:
                self._try_to(self._write_waiting)
            missing = len(self._waiting) + self._lost
            if missing and self._was_open:
                since = sqlite_file.clock_time(self._wall_s() if self._since_s is None else self._since_s)
                self._tell(f"{_rows(missing)} of the journal since {since} could not be written: {self._told}")
            self._waiting.clear()
            self._file.close()

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
        """Write all rows that wait, in one transaction."""
        database = self._file.database()
        last = journal_file.write(database, self._waiting)
        first = last - len(self._waiting)
        self._waiting.clear()
        # By the numbers in the file: most processes write a few rows and end, and together they write any number.
        if first // self._trim_each != last // self._trim_each:
            journal_file.trim(database, self._most_rows)

    def _try_to(self, action: Callable[[], object]) -> bool:
        """Read or write, in a new file if this one is damaged; return whether it worked."""
        with self._lock:
            try:
                try:
                    action()
                except (sqlite3.Error, FallowError) as error:
                    self._set_aside(error)
                    action()
            except (OSError, sqlite3.Error, FallowError) as error:
                self._failed(error)
                return False
            self._went_well()
            return True

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged journal; raise any other error again."""
        if not sqlite_file.says_damaged(error):
            raise error
        kept = self._file.set_aside()
        if kept is not None:
            self._tell(f"the journal was damaged ({error}): it is kept as {kept}, and a new one begins")

    def _failed(self, error: Exception) -> None:
        """Report each reason once."""
        self._reopen(_LESS_PATIENCE_S)
        if self._since_s is None:
            self._since_s = self._wall_s()
        if isinstance(self._folder, FallowError):
            self._say_once(f"no journal is kept: {error}")
        elif not self._was_open:
            why = (isinstance(error, OSError) and error.strerror) or error
            self._say_once(f"no journal is kept in {self._folder} for now: {why}")
        else:
            self._say_once(f"the journal in {self._folder} cannot be written now: {error}")

    def _went_well(self) -> None:
        """Report after a problem that it is over, and whether rows were lost."""
        self._was_open = True
        if self._since_s is None or self._waiting:
            return
        since = sqlite_file.clock_time(self._since_s)
        self._tell(
            f"the journal is written again{f'; {_rows(self._lost)} since {since} are lost' * bool(self._lost)}"
        )
        self._reopen(_PATIENCE_S)
        self._since_s, self._lost, self._told = None, 0, ""

    def _reopen(self, patience_s: float) -> None:
        self._file.close()
        self._file.patience_s = patience_s

    def _say_once(self, sentence: str) -> None:
        if sentence != self._told:
            self._told = sentence
            self._tell(sentence)

    def _folder_path(self) -> str:
        if isinstance(self._folder, FallowError):
            raise self._folder
        return self._folder


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
