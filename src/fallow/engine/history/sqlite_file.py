"""A database of ours: one file, which is renamed once if it cannot be read as ours."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple

from fallow.actuators.files.own_folder import own_folder, private_file
from fallow.core.errors import FallowError

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BUSY_S = 2.0
"""How long to wait for another process that writes."""


class NotOurs(FallowError):
    """A database that is not fallow's."""


class Schema(NamedTuple):
    """The tables of a database: the script makes those that are missing, and `user_version` says that it is ours."""

    version: int
    script: str


class OwnFile:
    """A file in the state folder, and the one connection of this process to it. Its owner calls it under a lock.

    If the file was removed or replaced, the connection is to what is there now.
    """

    def __init__(self, name: str, folder: Callable[[], str], schema: Schema, patience_s: float) -> None:
        self.path = ""
        self._name = name
        self._folder = folder
        self._schema = schema
        self.patience_s = patience_s
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def database(self) -> sqlite3.Connection:
        """Return the connection, opened if necessary. Raise OSError, sqlite3.Error or FallowError."""
        if self._database is None or self._file != _identity(self.path):
            self.close()
            self.path = private_file(own_folder(self._folder()), self._name)
            self._file = _identity(self.path)
            self._database = _opened(self.path, self._schema, self.patience_s)
        return self._database

    def set_aside(self) -> str | None:
        """Rename the file, which is damaged; return its new name, or None if another process has. Raise OSError."""
        self.close()
        if self._file != _identity(self.path):
            return None
        kept = f"{self.path}.damaged"
        for ending in ("-journal", ""):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{kept}{ending}")
        return kept

    def close(self) -> None:
        """Close the connection; it is opened again when it is asked for."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _identity(path: str) -> tuple[int, int] | None:
    """Return which file has that name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def says_damaged(error: Exception) -> bool:
    """Return whether the error means that the file is damaged, or has other tables than ours."""
    return isinstance(error, NotOurs) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def clock_time(wall_s: float) -> str:
    """Return `2026-11-15 14:39:19`, local."""
    return f"{datetime.fromtimestamp(wall_s).astimezone():%Y-%m-%d %H:%M:%S}"


def version_of(database: sqlite3.Connection) -> int:
    """Return the version of the tables of the file; 0 for a new one."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _connected(path: str, how: str, patience_s: float) -> sqlite3.Connection:
    """Open an existing file: `rw`, which never creates it, or `ro`."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{quoted}?mode={how}"
    return sqlite3.connect(uri, uri=True, timeout=patience_s, isolation_level=None, check_same_thread=False)


def _opened(path: str, schema: Schema, patience_s: float) -> sqlite3.Connection:
    """Open the file to write, with its tables. Raise NotOurs if it has other ones."""
    database = _connected(path, "rw", patience_s)
    try:
        _prepare(database, schema)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, schema: Schema) -> None:
    if database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        tables = f"{schema.script}; PRAGMA user_version = {schema.version:d}"
        database.executescript(f"BEGIN IMMEDIATE; {tables}; COMMIT")
    elif version_of(database) != schema.version:
        raise NotOurs("its tables are not those of this fallow")


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
    database = _connected(path, how, BUSY_S)
    database.execute("PRAGMA query_only = ON")
    return database
