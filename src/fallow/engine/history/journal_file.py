"""The file of the journal: its tables, and how rows are written and read."""

import json
import os
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from fallow.actuators.files.own_folder import NAME_ANOTHER_STATE
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.findings import USER, Event, Evidence
from fallow.core.reasons import Reason
from fallow.engine.history.sqlite_file import Schema, open_read_only, says_damaged, transaction

FILE_NAME = "journal.db"
_TABLES = """
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    finding TEXT NOT NULL, because TEXT NOT NULL, evidence TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS about (key TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS about_event ON about (event);
CREATE TABLE IF NOT EXISTS rest_power (uuid TEXT PRIMARY KEY, watts REAL NOT NULL)
"""
SCHEMA = Schema(1, _TABLES)
_COLUMNS = "id, at, kind, subject, finding, because, evidence, reason"
_LONGEST = 4000


class Row(NamedTuple):
    """A row to be written."""

    wall_s: float
    kind: str
    subject: str
    finding: str
    because: str
    evidence: Evidence
    keys: tuple[str, ...]
    reason: Reason | None = None


def read(folder: str, key: str | None, most: int) -> list[Event]:
    """Return the last events of the journal in that folder, which another process may write; none without one."""
    path = os.path.join(folder, FILE_NAME)
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NotPermitted(f"the journal in {folder} cannot be read: {error.strerror}", NAME_ANOTHER_STATE) from None
    if not found.st_size:
        return []
    try:
        database = open_read_only(path)
        try:
            rows = last(database, key, most)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise FallowError(_unreadable(path, error)) from None
    return events(rows)


def _unreadable(path: str, error: sqlite3.Error) -> str:
    """Return the error for a journal: what is wrong, and what to do."""
    if not says_damaged(error):
        return f"the journal {path} cannot be read now: {error}"
    return f"the journal {path} is damaged ({error}); `fallow up` renames it and begins a new one"


def write(database: sqlite3.Connection, rows: Iterable[Row]) -> int:
    """Write all rows, or none; return the number of the last one. Numbers grow, whichever process writes."""
    number = 0
    with transaction(database):
        for row in rows:
            texts = [_clean(text) for text in (row.kind, row.subject, row.finding, row.because)]
            evidence = json.dumps([(_clean(name), _clean(text)) for name, text in row.evidence])
            cursor = database.execute(
                "INSERT INTO event (at, kind, subject, finding, because, evidence, reason) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row.wall_s, *texts, evidence, _packed(row.reason)),
            )
            number = cursor.lastrowid or 0
            about = [(_clean(key), number) for key in row.keys]
            database.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", about)
    return number


Rows = list[tuple[Any, ...]]


def last(database: sqlite3.Connection, key: str | None, most: int) -> Rows:
    """Return the rows of the last events, newest first, each with its keys."""
    if key is not None and key.startswith("pid:") and "@" not in key:
        key = _last_of_that_number(database, key)
    which = ""
    values: tuple[str, ...] = ()
    if key is not None and key.startswith(USER):
        name = key.removeprefix(USER)
        job_user = "CASE WHEN reason <> '' THEN json_extract(reason, '$.job_user') END"
        which, values = f"WHERE {job_user} = ? OR instr(subject, ?) = 1", (name, f"{name}'s job ")
    elif key is not None:
        which, values = "WHERE id IN (SELECT event FROM about WHERE key = ?)", (key,)
    question = f"SELECT {_COLUMNS} FROM event {which} ORDER BY id DESC LIMIT {most:d}"  # noqa: S608  no part from outside
    rows = database.execute(question, values).fetchall()
    keys: dict[int, list[str]] = {row[0]: [] for row in rows}
    marks = ", ".join("?" * len(keys))
    about = f"SELECT event, key FROM about WHERE event IN ({marks})"  # noqa: S608  the same
    for number, each in database.execute(about, tuple(keys)):
        keys[number].append(str(each))
    return [(*row, tuple(keys[row[0]])) for row in rows]


def events(rows: Rows) -> list[Event]:
    """Return the events of rows."""
    return [_event(row) for row in rows]


def trim(database: sqlite3.Connection, most_rows: int) -> None:
    """Delete the oldest rows until there are no more than so many."""
    with transaction(database):
        (last,) = database.execute("SELECT max(id) FROM event").fetchone()
        database.execute("DELETE FROM about WHERE event <= ?", (last - most_rows,))
        database.execute("DELETE FROM event WHERE id <= ?", (last - most_rows,))


def rest_power_w(database: sqlite3.Connection) -> dict[str, float]:
    """Return what each GPU draws at rest."""
    rows = database.execute("SELECT uuid, watts FROM rest_power").fetchall()
    return {str(uuid): float(watts) for uuid, watts in rows}


def remember_rest_power(database: sqlite3.Connection, uuid: str, watts: float) -> None:
    """Store what a GPU draws at rest."""
    database.execute("INSERT OR REPLACE INTO rest_power VALUES (?, ?)", (uuid, watts))


def _last_of_that_number(database: sqlite3.Connection, key: str) -> str:
    question = "SELECT key FROM about WHERE key > ? AND key < ? ORDER BY event DESC LIMIT 1"
    found = database.execute(question, (f"{key}@", f"{key}A")).fetchone()  # A follows @
    return key if found is None else str(found[0])


def _event(row: tuple[Any, ...]) -> Event:
    number, wall_s, kind, subject, finding, because, evidence, reason, keys = row
    pairs = tuple((name, text) for name, text in json.loads(evidence))
    return Event(number, wall_s, kind, subject, finding, because, pairs, *_unpacked(reason), keys)


def _packed(reason: Reason | None) -> str:
    if reason is None:
        return ""
    facts = {name: _clean(fact) if isinstance(fact, str) else fact for name, fact in reason.plain_facts.items()}
    return json.dumps({"kind": reason.kind, **facts})


def _unpacked(text: str) -> tuple[str, tuple[tuple[str, str | float], ...]]:
    facts = json.loads(text) if text else {}
    kind = facts.pop("kind", "")
    return kind, tuple(facts.items())


def _clean(text: str) -> str:
    return text[:_LONGEST].encode(errors="replace").decode()
