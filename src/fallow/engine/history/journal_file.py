"""The file of the journal: its tables, and how rows are written and read."""

import json
import os
import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from fallow.actuators.files.state_folder import OWN_FOLDER
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.findings import USER, Event, Evidence
from fallow.core.reasons import Reason
from fallow.engine.history import tables
from fallow.engine.history.sqlite_file import (
    NotOurs,
    clock_time,
    open_read_only,
    open_to_write,
    says_damaged,
    transaction,
)

FILE_NAME = "journal.db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    finding TEXT NOT NULL, because TEXT NOT NULL, evidence TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS about (key TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS about_event ON about (event);
CREATE TABLE IF NOT EXISTS rest_power (uuid TEXT PRIMARY KEY, watts REAL NOT NULL);
"""
_COLUMNS = "id, at, kind, subject, finding, because, evidence"
_NAME = "substr(subject, 1, max(0, instr(subject, '''s ') - 1))"
_OF_KUBERNETES = "subject GLOB '[A-Z]*/*/*' AND instr(subject, ' ') = 0"
_BEHIND_KIND = "substr(subject, instr(subject, '/') + 1)"
_NAMESPACE = f"'/' || substr({_BEHIND_KIND}, 1, instr({_BEHIND_KIND}, '/') - 1)"
_WHOSE = f"CASE WHEN {_OF_KUBERNETES} THEN {_NAMESPACE} WHEN {_NAME} GLOB '[0-9]*' THEN '0' ELSE {_NAME} END"
"""Whose job a row is about: a user's, or a namespace's for `Deployment/NAMESPACE/NAME`.

Users without an account, whose names are numbers, are one: somebody may have many.
"""
_LAST_S = 253_402_214_400  # a day before the year 10000, where calendars end
_CACHE_KIB = 256
_TRIMMED_AT_ONCE = 2000
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


def connected(path: str, patience_s: float) -> tuple[sqlite3.Connection, bool]:
    """Open the existing database at that path, with its tables; return it and whether it had none before."""
    return open_to_write(path, patience_s, _CACHE_KIB, prepare)


def prepare(database: sqlite3.Connection) -> None:
    """Make the tables, or add what an older fallow did not have. Raise NotOurs if they are none of ours."""
    wanted = _shapes()
    if tables.fault(database, wanted) is None:
        return
    with tables.refusals_are_faults(), transaction(database):
        _demand_no_rows_without_the_others(database)
        tables.perform(database, _SCHEMA)
        if not _has_reasons(database):
            database.execute("ALTER TABLE event ADD COLUMN reason TEXT NOT NULL DEFAULT ''")
        tables.demand(database, wanted)


@cache
def _shapes() -> dict[str, tables.Shape]:
    return tables.shapes_after((_SCHEMA,), ("event", "about", "rest_power"))


def _demand_no_rows_without_the_others(database: sqlite3.Connection) -> None:
    """Raise NotOurs if rows are there, and the table that belongs to them is not: a new one would hide that."""
    for table, other in (("event", "about"), ("about", "event")):
        there = tables.shape_of(database, table) is not None and tables.shape_of(database, other) is None
        if there and database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:  # noqa: S608  no part from outside
            raise NotOurs(f"its tables are not fallow's: the table {other} is missing")


def read(folder: str, key: str | None, most: int) -> list[Event]:
    """Return the last events of the journal in that folder, which another process may write; none without one."""
    path = os.path.join(folder, FILE_NAME)
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NotPermitted(f"the journal in {folder} cannot be read: {error.strerror}", OWN_FOLDER) from None
    if not found.st_size:
        return []
    try:
        database = open_read_only(path)
        try:
            rows = last(database, key, most)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise FallowError(_unreadable(path, found.st_mtime, error)) from None
    return events(rows)


def _unreadable(path: str, written_s: float, error: sqlite3.Error) -> str:
    """Return the error for a journal: what is wrong, since when, and what to do."""
    if not says_damaged(error):
        return f"the journal {path} cannot be read now: {error}"
    return (
        f"the journal {path} is damaged ({error}): it was last written at {clock_time(written_s)}; what it has from"
        " before cannot be shown. Move it away, or start `fallow up`, which keeps it beside and begins a new one"
    )


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
    reason = "reason" if _has_reasons(database) else "''"
    which = ""
    values: tuple[str, ...] = ()
    if key is not None and key.startswith(USER):
        name = key.removeprefix(USER)
        job_user = f"CASE WHEN json_valid({reason}) THEN json_extract({reason}, '$.job_user') END"
        which, values = f"WHERE {job_user} = ? OR instr(subject, ?) = 1", (name, f"{name}'s job ")
    elif key is not None:
        which, values = "WHERE id IN (SELECT event FROM about WHERE key = ?)", (key,)
    question = f"SELECT {_COLUMNS}, {reason} FROM event {which} ORDER BY id DESC LIMIT {most:d}"  # noqa: S608  no part from outside
    rows = database.execute(question, values).fetchall()
    keys: dict[int, list[str]] = {row[0]: [] for row in rows}
    marks = ", ".join("?" * len(keys))
    about = f"SELECT event, key FROM about WHERE event IN ({marks})"  # noqa: S608  the same
    for number, each in database.execute(about, tuple(keys)):
        if number in keys:  # not so in an index that is damaged
            keys[number].append(str(each))
    return [(*row, tuple(keys[row[0]])) for row in rows]


def events(rows: Rows) -> list[Event]:
    """Return the events of rows."""
    return [_event(row) for row in rows]


def trim(database: sqlite3.Connection, most_rows: int) -> None:
    """Delete rows until there are no more than so many: the oldest of those about whose jobs there are most.

    So nobody makes the journal forget the jobs of others by rows about many jobs of their own. Of a journal that is
    much too long, some rows go each time: whoever writes waits for it.
    """
    placed = f"SELECT id, row_number() OVER (PARTITION BY {_WHOSE} ORDER BY id DESC) AS place FROM event"  # noqa: S608  no part from outside
    too_many = f"SELECT id FROM ({placed}) ORDER BY place DESC, id LIMIT ?"  # noqa: S608  the same
    with transaction(database):
        (count,) = database.execute("SELECT count(*) FROM event").fetchone()
        rows = database.execute(too_many, (max(0, min(count - most_rows, _TRIMMED_AT_ONCE)),)).fetchall()
        database.executemany("DELETE FROM about WHERE event = ?", rows)
        database.executemany("DELETE FROM event WHERE id = ?", rows)


def newest(database: sqlite3.Connection) -> tuple[int, float] | None:
    """Return the number and the time of the last row; None if there is none."""
    found: tuple[int, float] | None = database.execute("SELECT id, at FROM event ORDER BY id DESC LIMIT 1").fetchone()
    return found


def missing_since_s(database: sqlite3.Connection, number: int, wall_s: float) -> float | None:
    """Return since when rows are missing, if the row of that number is gone or is another one; else None.

    It is 0 if none from before that row is there. A row that is gone while newer ones are there was deleted to keep
    the journal short.
    """
    found = database.execute("SELECT at FROM event WHERE id = ?", (number,)).fetchone()
    if found is None:
        found = database.execute("SELECT ? FROM event WHERE id > ? LIMIT 1", (wall_s, number)).fetchone()
    if found == (wall_s,):
        return None
    before = "SELECT coalesce(max(at), 0.0) FROM event WHERE id < ? AND at <= ?"
    return float(database.execute(before, (number, wall_s)).fetchone()[0])


def rest_power_w(database: sqlite3.Connection) -> dict[str, float]:
    """Return what each GPU draws at rest."""
    rows = database.execute("SELECT uuid, watts FROM rest_power").fetchall()
    return {str(uuid): float(watts) for uuid, watts in rows if isinstance(watts, int | float)}


def remember_rest_power(database: sqlite3.Connection, uuid: str, watts: float) -> None:
    """Store what a GPU draws at rest."""
    database.execute("INSERT OR REPLACE INTO rest_power VALUES (?, ?)", (uuid, watts))


def _last_of_that_number(database: sqlite3.Connection, key: str) -> str:
    question = "SELECT key FROM about WHERE key > ? AND key < ? ORDER BY event DESC LIMIT 1"
    found = database.execute(question, (f"{key}@", f"{key}A")).fetchone()  # A follows @
    return key if found is None else str(found[0])


def _event(row: tuple[Any, ...]) -> Event:
    number, wall_s, kind, subject, finding, because, evidence, reason, keys = row
    try:
        pairs = tuple((str(name), str(text)) for name, text in json.loads(evidence))
    except (ValueError, TypeError, RecursionError):
        pairs = (("evidence", "cannot be read any more"),)
    at_s = float(wall_s) if isinstance(wall_s, int | float) and 0 <= wall_s < _LAST_S else 0.0
    texts = (str(kind), str(subject), str(finding), str(because))
    return Event(int(number), at_s, *texts, pairs, *_unpacked(reason), keys)


def _has_reasons(database: sqlite3.Connection) -> bool:
    """Return whether rows have a reason: those of an older fallow have none."""
    return any(row[1] == "reason" for row in database.execute("PRAGMA table_info(event)"))


def _packed(reason: Reason | None) -> str:
    if reason is None:
        return ""
    facts = {name: _clean(fact) if isinstance(fact, str) else fact for name, fact in reason.plain_facts.items()}
    return json.dumps({"kind": reason.kind, **facts})


def _unpacked(text: object) -> tuple[str, tuple[tuple[str, str | float], ...]]:
    try:
        facts = json.loads(str(text)) if text else {}
        kind = str(facts.pop("kind", ""))
        return kind, tuple((str(name), fact) for name, fact in facts.items() if isinstance(fact, str | int | float))
    except (ValueError, AttributeError, RecursionError):
        return "", ()


def _clean(text: str) -> str:
    return text[:_LONGEST].encode(errors="replace").decode()
