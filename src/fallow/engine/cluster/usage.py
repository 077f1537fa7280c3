"""What the GPUs of a cluster did by node, partition, account, namespace, user: a small file of hourly sums.

The cluster's thread adds each look to sums in memory, and writes them once a minute. After a week hours become days,
and after `keep_s` they are deleted, so the file stays small. Any thread of the daemon may read it, through the same
connection; other processes read it with `read_usage`.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from threading import RLock

from fallow.core.cluster import ClusterNode, Readings
from fallow.core.cluster_usage import UsageRow
from fallow.core.errors import FallowError
from fallow.core.job import JobActivity
from fallow.core.units import printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.witnessed_time import witnessed_s
from fallow.engine.cluster.job_state import ClusterJobState
from fallow.engine.history import sqlite_file, tables
from fallow.engine.history.marks import TABLE, clock_is_trusted, mark, set_mark
from fallow.engine.history.own_file import OwnFile

FILE_NAME = "cluster.db"
_LABELS = ("partition", "account", "qos", "namespace")
_HOUR_S, _DAY_S = 3600, 86_400
_FINE_FOR_S = 8 * _DAY_S
_FLUSH_S = 60.0
_MOST_NAMES = 50_000
_LONGEST_NAME = 100
_CACHE_KIB = 512
_NOBODY = "nobody"
_WHAT = "the file of what the cluster did"
_WRITTEN = "written"
"""The mark of the time when the file was written last: an older copy has an earlier one."""
_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS usage (
    begin INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, busy REAL NOT NULL, idle REAL NOT NULL,
    empty REAL NOT NULL, unknown REAL NOT NULL, free REAL NOT NULL, filled REAL NOT NULL DEFAULT 0.0,
    PRIMARY KEY (begin, kind, name)) WITHOUT ROWID;
"""
    + TABLE
)
_ADD = (
    "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (begin, kind, name) DO UPDATE SET"
    " busy = busy + excluded.busy, idle = idle + excluded.idle, empty = empty + excluded.empty,"
    " unknown = unknown + excluded.unknown, free = free + excluded.free, filled = filled + excluded.filled"
)
_SUM = (
    "SELECT name, total(busy), total(idle), total(empty), total(unknown), total(free), {filled} FROM usage"
    " WHERE kind = ? AND begin >= ? AND begin < ? GROUP BY name"
)
_COLUMNS = _BUSY, _IDLE, _EMPTY, _UNKNOWN, _FREE, _FILLED = range(6)
_COLUMN = {JobActivity.BUSY: _BUSY, JobActivity.IDLE: _IDLE, JobActivity.UNKNOWN: _UNKNOWN}


class UsageFile:
    """The sums, and the one connection of this process to their file. Any thread may call its methods."""

    def __init__(self, folder: str, tell: Callable[[str], None], keep_s: float, longest_gap_s: float) -> None:
        """`tell` gets a sentence when nothing can be kept, and one when it can again."""
        self._folder = folder
        self._tell = tell
        self._keep_s = keep_s
        self._longest_gap_s = longest_gap_s
        self._lock = RLock()
        self._sums: dict[tuple[int, str, str], list[float]] = {}
        self._at_s: float | None = None
        self._flushed_s: float | None = None
        self._aged_s: float | None = None
        self._file = OwnFile(
            FILE_NAME, lambda: folder, _connect, self._notice_older_copy, self._say_it_was_taken_away
        )
        self._wall_s = 0.0
        self._since_s: float | None = None
        """Since when something is not written yet."""
        self._written_ms: int | None = None
        self._failed = False

    def take(
        self,
        states: Iterable[ClusterJobState],
        readings: Readings,
        wall_s: float,
        nodes: Sequence[ClusterNode] = (),
    ) -> None:
        """Add one look to the sums. A gap counts zero; never fails because of the disk."""
        with self._lock:
            passed_s = witnessed_s(self._at_s, readings.at_s, self._longest_gap_s)
            self._at_s = readings.at_s
            self._wall_s = wall_s
            if passed_s > 0:
                self._since_s = wall_s - passed_s if self._since_s is None else self._since_s
                self._add(states, nodes, passed_s, int(wall_s // _HOUR_S) * _HOUR_S)
            if self._flushed_s is None or not 0 <= wall_s - self._flushed_s < _FLUSH_S:
                self._flushed_s = wall_s
                self._flush(wall_s)

    def rows(self, kind: str, since_wall_s: float, until_wall_s: float) -> list[UsageRow]:
        """Return the sums of each name of a kind, those with the most idle time first. Raise FallowError."""
        with self._lock:
            self._flush(None)
            try:
                return _rows(self._file.database(), kind, since_wall_s, until_wall_s)
            except (OSError, sqlite3.Error) as error:
                raise FallowError(f"what the cluster did cannot be read now: {error}") from None

    def close(self) -> None:
        """Write what is left, and close the file; report since when it is missing if it cannot be written."""
        with self._lock:
            self._flush(None)
            if self._sums and self._since_s is not None:
                since = sqlite_file.clock_time(self._since_s)
                self._tell(f"what the cluster did since {since} could not be written, and is not kept")
            self._file.let_go()

    def _add(
        self, states: Iterable[ClusterJobState], nodes: Sequence[ClusterNode], passed_s: float, hour: int
    ) -> None:
        held: dict[str, int] = {}
        for state in states:
            job, use = state.job, state.use
            sums = [0.0] * len(_COLUMNS)
            if state.is_background or isinstance(use, Unknown):
                column = _FILLED if state.is_background else _UNKNOWN
                sums[column] = passed_s * job.gpu_count
                for place in job.places:
                    held[place.node] = held.get(place.node, 0) + place.count
                    self._row(hour, "node", place.node)[column] += passed_s * place.count
            else:
                is_empty = use.is_empty
                before, row = None, sums  # the GPUs of a node follow each other
                for one in use.uses:
                    column = _COLUMN[one.activity]
                    sums[column] += passed_s
                    node = one.place.node
                    held[node] = held.get(node, 0) + 1
                    if node != before:
                        before, row = node, self._row(hour, "node", node)
                    row[column] += passed_s
                    row[_EMPTY] += passed_s * is_empty
                sums[_EMPTY] = sums[_IDLE] * is_empty
            self._add_to(hour, "cluster", "all", sums)
            self._add_to(hour, "user", job.user or _NOBODY, sums)
            for label in _LABELS:
                name = job.labels.get(label)
                if name:
                    self._add_to(hour, label, name, sums)
        for each in nodes:
            free_s = max(0, each.gpus - held.get(each.name, 0)) * passed_s
            if free_s:
                self._row(hour, "node", each.name)[_FREE] += free_s
                self._row(hour, "cluster", "all")[_FREE] += free_s

    def _add_to(self, hour: int, kind: str, name: str, sums: Sequence[float]) -> None:
        row = self._row(hour, kind, name)
        for column, seconds in enumerate(sums):
            row[column] += seconds

    def _row(self, hour: int, kind: str, name: str) -> list[float]:
        key = (hour, kind, name)
        row = self._sums.get(key)
        if row is None:
            # Others choose these names: they are made short, and there are not more than so many of them.
            named = shortened(printable(name), _LONGEST_NAME) if len(self._sums) < _MOST_NAMES else "other"
            row = self._sums.setdefault((hour, kind, named), [0.0] * len(_COLUMNS))
        return row

    def _flush(self, wall_s: float | None) -> None:
        """Write the sums, all or none; what cannot be written waits."""
        if not self._sums:
            return
        try:
            self._write(wall_s)
        except (OSError, sqlite3.Error, FallowError) as error:
            if not self._trouble(error):
                return
            try:
                self._write(wall_s)  # into a new file
            except (OSError, sqlite3.Error, FallowError) as again:
                self._trouble(again)
                return
        self._sums.clear()
        self._since_s = None
        if self._failed:
            self._failed = False
            self._tell("what the cluster does is kept again")

    def _write(self, wall_s: float | None) -> None:
        """Write the sums in one transaction; again into a new file if this one was removed meanwhile."""
        at_ms = round(self._wall_s * 1000)
        while True:
            database = self._file.database()
            own_tables = nullcontext() if self._file.is_new else tables.refusals_are_faults()
            with own_tables, sqlite_file.transaction(database):
                database.executemany(_ADD, [(*key, *sums) for key, sums in self._sums.items()])
                set_mark(database, _WRITTEN, at_ms)
                if wall_s is not None:
                    self._age(database, wall_s)
            if self._file.is_there:
                self._written_ms = at_ms
                return

    def _age(self, database: sqlite3.Connection, wall_s: float) -> None:
        """Make days of hours that are older than a week, and delete what is too old; once an hour."""
        if self._aged_s is not None and 0 <= wall_s - self._aged_s < _HOUR_S:
            return
        self._aged_s = wall_s
        if clock_is_trusted(database, round(wall_s * 1000)):
            database.execute("DELETE FROM usage WHERE begin < ?", (int(wall_s - self._keep_s),))
        before = int((wall_s - _FINE_FOR_S) // _DAY_S) * _DAY_S
        old = database.execute(
            "SELECT begin / ? * ?, kind, name, total(busy), total(idle), total(empty), total(unknown),"
            " total(free), total(filled)"
            " FROM usage WHERE begin < ? GROUP BY 1, 2, 3 HAVING max(begin % ?) > 0",
            (_DAY_S, _DAY_S, before, _DAY_S),
        ).fetchall()
        for row in old:
            begin, kind, name = row[:3]
            database.execute(
                "DELETE FROM usage WHERE kind = ? AND name = ? AND begin >= ? AND begin < ?",
                (kind, name, begin, begin + _DAY_S),
            )
        database.executemany(_ADD, old)

    def _trouble(self, error: Exception) -> bool:
        """Report the error once; return whether the file was damaged, and is set aside."""
        self._file.let_go()
        if sqlite_file.says_damaged(error):
            with suppress(OSError):
                kept = self._file.set_aside()
                when = sqlite_file.clock_time(self._wall_s)
                self._tell(
                    f"{_WHAT} was damaged ({error}): what was before {when} is in {kept}, and a new one begins"
                )
                self._written_ms = None
                return True
        if not self._failed:
            self._failed = True
            self._tell(f"what the cluster does is not kept in {self._folder} for now: {error}; all else goes on")
        return False

    def _notice_older_copy(self, database: sqlite3.Connection) -> None:
        """Report what a copy lacks which was written over the file, or put in its place."""
        found_ms = mark(database, _WRITTEN)
        if self._written_ms is None or found_ms >= self._written_ms:
            return
        if not found_ms:
            self._say_it_was_taken_away()
            return
        self._written_ms = None
        since, when = sqlite_file.clock_time(found_ms / 1000), sqlite_file.clock_time(self._wall_s)
        self._tell(f"{_WHAT} was replaced by an older copy: what was written between {since} and {when} is gone")

    def _say_it_was_taken_away(self) -> None:
        when = sqlite_file.clock_time(self._wall_s)
        self._tell(f"{_WHAT} was taken away: what was before {when} is gone, and a new one begins")
        self._written_ms = None


def read_usage(folder: str, kind: str, since_wall_s: float, until_wall_s: float) -> list[UsageRow]:
    """Return the sums in that folder, which another process may write; none without a file. Raise FallowError."""
    path = os.path.join(folder, FILE_NAME)
    try:
        if not os.stat(path).st_size:
            return []
        database = sqlite_file.open_read_only(path)
        try:
            return _rows(database, kind, since_wall_s, until_wall_s)
        finally:
            database.close()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, sqlite3.Error) as error:
        raise FallowError(f"what the cluster did cannot be read from {path}: {error}") from None


def _rows(database: sqlite3.Connection, kind: str, since_wall_s: float, until_wall_s: float) -> list[UsageRow]:
    since, until = int(since_wall_s // _HOUR_S) * _HOUR_S, until_wall_s
    query = _SUM.format(filled="total(filled)" if _has_filled(database) else "0.0")
    found = [UsageRow(*row) for row in database.execute(query, (kind, since, until))]
    return sorted(found, key=lambda row: (-row.idle_s, -row.busy_s, row.name))


def _connect(path: str) -> tuple[sqlite3.Connection, bool]:
    return sqlite_file.open_to_write(path, sqlite_file.BUSY_S, _CACHE_KIB, _prepare)


def _prepare(database: sqlite3.Connection) -> None:
    """Make the tables, or add what an older fallow did not have. Raise NotOurs if they are none of ours."""
    wanted = _shapes()
    if tables.fault(database, wanted) is None:
        return
    with tables.refusals_are_faults(), sqlite_file.transaction(database):
        if tables.shape_of(database, "usage") is None and tables.shape_of(database, "mark") is not None:
            raise sqlite_file.NotOurs("its tables are not fallow's: the table usage is missing")
        tables.perform(database, _SCHEMA)
        if not _has_filled(database):
            database.execute("ALTER TABLE usage ADD COLUMN filled REAL NOT NULL DEFAULT 0.0")
        tables.demand(database, wanted)


@cache
def _shapes() -> dict[str, tables.Shape]:
    return tables.shapes_after((_SCHEMA,), ("usage", "mark"))


def _has_filled(database: sqlite3.Connection) -> bool:
    """Return whether rows tell filled time: those of an older fallow do not."""
    return any(row[1] == "filled" for row in database.execute("PRAGMA table_info(usage)"))
