"""A database as a file that others can remove, damage or replace, without SQLite noticing."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from fallow.core.errors import FallowError

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MOST_DAMAGED = 5
BUSY_S = 2.0
"""How long to wait for another process that writes."""


class NotOurs(FallowError):
    """A database that is not fallow's."""


class Damaged(sqlite3.DatabaseError):
    """A database whose damage SQLite describes in bytes that are no text."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class _Connection(sqlite3.Connection):
    """A connection on which every failure is a sqlite3.Error, and which reads texts that were damaged."""

    def __init__(self, path: str, how: str, patience_s: float) -> None:
        uri = _uri(path, f"mode={how}")
        super().__init__(uri, uri=True, timeout=patience_s, isolation_level=None, check_same_thread=False)
        self.text_factory = _text

    def execute(self, question: str, values: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401  as sqlite3 takes them
        try:
            return super().execute(question, values)
        except UnicodeDecodeError:  # the words of its tables are damaged, and SQLite quotes them
            raise Damaged("its tables cannot be read") from None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def identity(path: str) -> tuple[int, int] | None:
    """Return which file has that name; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def says_damaged(error: Exception) -> bool:
    """Return whether the error means that the file is damaged, or has other tables than ours."""
    return isinstance(error, NotOurs) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def set_aside(path: str) -> str:
    """Rename a damaged file and what belongs to it; return where it is. The last of many is replaced."""
    names = [f"{path}.damaged-{number}" for number in range(1, _MOST_DAMAGED + 1)]
    free = next((name for name in names if not os.path.lexists(name)), None)
    kept = free or names[-1]
    for ending in ("-journal", "-wal", "-shm", ""):
        if os.path.lexists(f"{path}{ending}"):
            os.rename(f"{path}{ending}", f"{kept}{ending}")
        elif free is None and os.path.lexists(f"{kept}{ending}"):
            os.unlink(f"{kept}{ending}")  # it belongs to the one that is replaced
    return kept if free is not None else f"{kept} (in the place of an older one, which is gone)"


def clock_time(wall_s: float) -> str:
    """Return `2026-11-15 14:39:19`, local; the number if no calendar reaches that far."""
    try:
        return f"{datetime.fromtimestamp(wall_s).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"second {wall_s:.0f}"


def _uri(path: str, how: str) -> str:
    """Return the name by which SQLite opens it: `mode=rw`, which never creates it, or `mode=ro`."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?{how}"


def open_to_write(
    path: str, patience_s: float, cache_kib: int, prepare: Callable[[sqlite3.Connection], None]
) -> tuple[sqlite3.Connection, bool]:
    """Open the existing file and prepare its tables; return it and whether it had none before."""
    database = _Connection(path, "rw", patience_s)
    try:
        without_log(database)
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"PRAGMA cache_size = -{cache_kib:d}")
        new = database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
        prepare(database)
    except BaseException:
        database.close()
        raise
    return database, new


def without_log(database: sqlite3.Connection) -> None:
    """Let all be in the one file, as far as others let us: one who has it open with a log has us use that too."""
    with suppress(sqlite3.OperationalError):
        database.execute("PRAGMA journal_mode = TRUNCATE")


class Watch:
    """Notices that anybody but this connection has changed the file, by SQLite or by hand."""

    def __init__(self, database: sqlite3.Connection) -> None:
        """To be made when the tables are as they must be."""
        self.database = database
        self._seen: int | None = None
        self._tables = self._all_tables()

    def others_wrote(self) -> bool:
        """Return whether anybody has since the last call; at the first call, yes."""
        before, self._seen = self._seen, self._number()
        if before == self._seen:
            return False
        without_log(self.database)
        return True

    @property
    def is_as_seen(self) -> bool:
        """Return whether nobody has since the last call of `others_wrote`."""
        return self._seen == self._number()

    def has_other_tables(self) -> bool:
        """Return whether the tables or their version are others than at first."""
        return self._tables != self._all_tables()

    def _number(self) -> int:
        return int(self.database.execute("PRAGMA data_version").fetchone()[0])

    def _all_tables(self) -> list[tuple[Any, ...]]:
        version = self.database.execute("PRAGMA user_version").fetchall()
        return version + self.database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit everything done inside the block, or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def open_read_only(path: str) -> sqlite3.Connection:
    """Open it read-only while another process may write it. Our own may be repaired after a writer was killed."""
    how = "rw" if os.stat(path).st_uid == os.geteuid() and os.access(path, os.W_OK) else "ro"
    database = _Connection(path, how, BUSY_S)
    database.execute("PRAGMA query_only = ON")
    return database
