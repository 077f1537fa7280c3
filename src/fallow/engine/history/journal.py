"""The journal: verdicts, actions and outcomes.

It is SQLite, and every row is synced before it is reported: after a kill at any moment every written row is there. A
process has one connection, shared by its threads; the file is never opened beside it, because closing any descriptor
of a file drops all locks that the process has on it. There is no write-ahead log: rows are rare, and so there is no
second file that could be removed, or that a close could delete while another process uses it.

What cannot be written waits in memory (some hundred rows), and is written as soon as possible. A file that was
removed or is damaged is replaced by a new one; the damaged one is kept beside it. Each is reported once, with the
time since when rows are missing. Policies do not depend on any of it.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from threading import RLock
from typing import TYPE_CHECKING

from fallow.core.errors import FallowError
from fallow.core.findings import Event, Evidence, Verdict
from fallow.core.reasons import Reason
from fallow.engine.history import journal_file, sqlite_file, tables
from fallow.engine.history.journal_file import FILE_NAME, Row
from fallow.engine.history.own_file import OwnFile

if TYPE_CHECKING:
    from fallow.engine.machine.world import World

__all__ = ["Event", "Journal", "open_journal"]

_MOST_ROWS = 20_000
_MOST_WAITING = 500
_PATIENCE_S = 2.0  # for another process that writes; after one failure the next rows wait less
_LESS_PATIENCE_S = 0.05
_TURNS = 4  # ticks from one try to the next: each may wait for another process that writes
_TRIES = 3  # as it is; with its tables made again; in a new file


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
        self._file = OwnFile(
            FILE_NAME, self._folder_path, self._connected, self._notice_older_copy, self._say_it_was_taken_away
        )
        self._waiting: deque[Row] = deque(maxlen=_MOST_WAITING)
        self._lost = 0
        self._turns = 0
        self._since_s: float | None = None
        """Since when rows wait, while they do."""
        self._told = ""
        self._newest: tuple[int, float] | None = None
        """The number and the time of the last row that this process has written to the file, or found in it."""
        self._try_to(lambda: None)

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
            if missing and self._file.was_open:
                since = sqlite_file.clock_time(self._wall_s() if self._since_s is None else self._since_s)
                self._tell(f"{_rows(missing)} of the journal since {since} could not be written: {self._told}")
            self._waiting.clear()
            self._file.let_go()

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
        """Write all rows that wait, in one transaction; again in a new file if this one was removed meanwhile."""
        while True:
            database = self._file.database()
            last = journal_file.write(database, self._waiting)
            if self._file.is_there:
                break
        first = last - len(self._waiting)
        self._newest = (last, self._waiting[-1].wall_s) if self._waiting else self._newest
        self._waiting.clear()
        # By the numbers in the file: most processes write a few rows and end, and together they write any number.
        if first // self._trim_each != last // self._trim_each:
            journal_file.trim(database, self._most_rows)

    def _try_to(self, action: Callable[[], object]) -> bool:
        """Perform a write; return whether it worked. The caller goes on in any case."""
        with self._lock:
            for tries_left in reversed(range(_TRIES)):
                try:
                    self._file.database()
                    action()
                except (OSError, sqlite3.Error, FallowError) as error:
                    if not self._failed(error, tries_left):
                        return False
                else:
                    self._went_well()
                    return True
            return False

    def _failed(self, error: Exception, tries_left: int) -> bool:
        """Return whether to try again at once, in a new file. Each reason is reported once."""
        refused = tables.is_refusal(error)
        again = tries_left < _TRIES - 1
        damaged = sqlite_file.says_damaged(error) or (refused and again and self._waiting and not self._file.is_new)
        same = self._file.is_there
        self._file.let_go()
        if tries_left and ((refused and not again) or (damaged and not same)):
            return True  # its tables are made again; or another process has set it aside already
        if damaged and self._set_aside(error) and tries_left:
            return True
        if self._since_s is None:
            self._since_s = self._wall_s()
        if isinstance(self._folder, FallowError):
            self._say_once(f"no journal is kept: {error}")
        elif not self._file.was_open:
            why = (isinstance(error, OSError) and error.strerror) or error
            self._say_once(f"no journal is kept in {self._folder} for now: {why}")
        elif not damaged or not tries_left:
            self._say_once(f"the journal in {self._folder} cannot be written now: {error}")
        return False

    def _went_well(self) -> None:
        """Report after a problem that it is over, and whether rows were lost."""
        if self._since_s is None or self._waiting:
            return
        since = sqlite_file.clock_time(self._since_s)
        self._tell(
            f"the journal is written again{f'; {_rows(self._lost)} since {since} are lost' * bool(self._lost)}"
        )
        self._file.wait_for_others(_PATIENCE_S)
        self._since_s, self._lost, self._told = None, 0, ""

    def _set_aside(self, error: Exception) -> bool:
        """Keep a damaged journal beside a new one; return whether that worked."""
        try:
            kept = self._file.set_aside()
        except OSError as refusal:
            self._say_once(f"the journal in {self._folder} is damaged ({error}), and stays: {refusal.strerror}")
            return False
        when = sqlite_file.clock_time(self._wall_s())
        self._tell(f"the journal was damaged ({error}): rows from before {when} are in {kept}, and a new one begins")
        self._newest = None
        return True

    def _say_once(self, sentence: str) -> None:
        if sentence != self._told:
            self._told = sentence
            self._tell(sentence)

    def _folder_path(self) -> str:
        if isinstance(self._folder, FallowError):
            raise self._folder
        return self._folder

    def _connected(self, path: str) -> tuple[sqlite3.Connection, bool]:
        return journal_file.connected(path, _PATIENCE_S if self._since_s is None else _LESS_PATIENCE_S)

    def _notice_older_copy(self, database: sqlite3.Connection) -> None:
        """Report rows that a copy lacks which was written over the file, or put in its place."""
        self._newest = self._newest or journal_file.newest(database)
        since_s = None if self._newest is None else journal_file.missing_since_s(database, *self._newest)
        if since_s == 0:  # another process has begun a new one
            self._say_it_was_taken_away()
        elif since_s is not None:
            self._newest = None
            since, when = sqlite_file.clock_time(since_s), sqlite_file.clock_time(self._wall_s())
            self._tell(f"the journal was replaced by an older copy: rows from between {since} and {when} are gone")

    def _say_it_was_taken_away(self) -> None:
        when = sqlite_file.clock_time(self._wall_s())
        self._tell(f"the journal was taken away: rows from before {when} are gone, and a new one begins")
        self._newest = None


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
