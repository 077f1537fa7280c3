"""Times that a database keeps beside its rows, each under a name."""

import sqlite3

TABLE = "CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID"


def mark(database: sqlite3.Connection, name: str) -> int:
    """Return the time of that name in milliseconds; 0 if there is none."""
    found = database.execute("SELECT at FROM mark WHERE name = ?", (name,)).fetchone()
    return 0 if found is None else int(found[0])


def set_mark(database: sqlite3.Connection, name: str, at_ms: int) -> None:
    """Store a time under a name, in the transaction that is open."""
    database.execute("INSERT INTO mark VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at", (name, at_ms))
