"""Times that a database keeps beside its rows, each under a name."""

import sqlite3

from fallow.engine.history.sane import number

TABLE = "CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;"
_DAY_MS = 86_400_000


def mark(database: sqlite3.Connection, name: str) -> int:
    """Return the time of that name in milliseconds; 0 if there is none."""
    found = database.execute("SELECT at FROM mark WHERE name = ?", (name,)).fetchone()
    return 0 if found is None else number(found[0])


def set_mark(database: sqlite3.Connection, name: str, at_ms: int) -> None:
    """Store a time under a name, in the transaction that is open."""
    database.execute("INSERT INTO mark VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at", (name, at_ms))


def clock_is_trusted(database: sqlite3.Connection, now_ms: int) -> bool:
    """Return whether old rows may be deleted: not for one day after the clock jumped ahead by days.

    To be called in a transaction, and often: it notes the time.
    """
    before_ms, leapt_ms = mark(database, "clock"), mark(database, "leapt")
    if before_ms and now_ms - before_ms > 2 * _DAY_MS:
        leapt_ms = now_ms
    set_mark(database, "clock", now_ms)
    set_mark(database, "leapt", leapt_ms)
    return not 0 <= now_ms - leapt_ms < _DAY_MS
