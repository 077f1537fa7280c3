"""A database as a file that others can remove, damage or replace, without SQLite noticing."""

import os
import sqlite3
from datetime import datetime

from fallow.core.errors import FallowError

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MOST_DAMAGED = 5
_BUSY_S = 2.0


class NotOurs(FallowError):
    """A database that is not fallow's."""


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


def is_empty(database: sqlite3.Connection) -> bool:
    """Return whether it has no table: it is new, or was emptied."""
    return database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def set_aside(path: str) -> str:
    """Rename a damaged file and what belongs to it; return its new path. The last of many is replaced."""
    names = [f"{path}.damaged-{number}" for number in range(1, _MOST_DAMAGED + 1)]
    kept = next((name for name in names if not os.path.lexists(name)), names[-1])
    for ending in ("-journal", "-wal", "-shm", ""):
        if os.path.lexists(f"{path}{ending}"):
            os.rename(f"{path}{ending}", f"{kept}{ending}")
    return kept


def clock_time(wall_s: float) -> str:
    """Return `2026-11-15 14:39:19`, local; the number if no calendar reaches that far."""
    try:
        return f"{datetime.fromtimestamp(wall_s).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"second {wall_s:.0f}"


def uri(path: str, how: str) -> str:
    """Return the name by which SQLite opens it: `mode=rw`, which never creates it, or `mode=ro`."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?{how}"


def open_read_only(path: str) -> sqlite3.Connection:
    """Open it read-only while another process may write it. Our own may be repaired after a writer was killed."""
    how = "rw" if os.stat(path).st_uid == os.geteuid() and os.access(path, os.W_OK) else "ro"
    database = sqlite3.connect(
        uri(path, f"mode={how}"), uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    database.execute("PRAGMA query_only = ON")
    return database
