"""The tables that a file of ours must have. Others can change them, and rows would then go nowhere, in silence.

They are compared with those that the same scripts make in memory: columns, keys and triggers. What else is in the
file does not matter, and neither do the words by which a table was once made.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from fallow.engine.history.sqlite_file import NotOurs

_REFUSALS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)
"""What SQLite answers where a table is missing, or is not as a statement expects it."""


class Shape(NamedTuple):
    """What a table is: what is written to it depends on all of this."""

    kind: str
    columns: tuple[tuple[Any, ...], ...]
    keys: frozenset[tuple[str, ...]]
    triggers: frozenset[tuple[str, str]]
    """Their names and their texts."""


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; a trigger has several in it, and is one."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def perform(database: sqlite3.Connection, script: str) -> None:
    """Execute the statements of a script, in the transaction that is open."""
    for statement in statements(script):
        database.execute(statement)


def shape_of(database: sqlite3.Connection, table: str) -> Shape | None:
    """Return what the table is; None if there is none of that name."""
    found = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if found is None:
        return None
    columns = database.execute('SELECT name, upper(type), "notnull", pk, hidden FROM pragma_table_xinfo(?)', (table,))
    of_table = "type = 'trigger' AND tbl_name = ?"
    triggers = database.execute(f"SELECT name, sql FROM sqlite_master WHERE {of_table}", (table,))  # noqa: S608  no part from outside
    return Shape(
        str(found[0]),
        tuple(columns.fetchall()),
        frozenset(_keys(database, table)),
        frozenset((str(name), str(text)) for name, text in triggers),
    )


def _keys(database: sqlite3.Connection, table: str) -> Iterator[tuple[str, ...]]:
    """Yield the columns of each key, which no two rows may share."""
    for (index,) in database.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', (table,)).fetchall():
        rows = database.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))
        yield tuple(str(name) for (name,) in rows)


def shapes_after(scripts: Iterable[str], names: Iterable[str]) -> dict[str, Shape]:
    """Return what these tables are in a new file, after these scripts."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for script in scripts:
            perform(database, script)
        return {name: shape for name in names if (shape := shape_of(database, name)) is not None}


def fault(database: sqlite3.Connection, wanted: dict[str, Shape]) -> str | None:
    """Return what is wrong with the first table that is not as it must be; None if all are."""
    for name, shape in wanted.items():
        found = shape_of(database, name)
        if found == shape:
            continue
        if found is None:
            return f"the table {name} is missing"
        if found.kind != shape.kind:
            return f"{name} is a {found.kind}"
        if found.columns != shape.columns:
            return f"the table {name} has other columns"
        return f"the table {name} has other {'keys' if found.keys != shape.keys else 'triggers'}"
    return None


def demand(database: sqlite3.Connection, wanted: dict[str, Shape]) -> None:
    """Raise NotOurs if a table is not as it must be."""
    wrong = fault(database, wanted)
    if wrong is not None:
        raise NotOurs(f"its tables are not fallow's: {wrong}")


def is_refusal(error: Exception) -> bool:
    """Return whether SQLite has refused a statement because of the tables."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSALS


@contextmanager
def refusals_are_faults() -> Iterator[None]:
    """Raise NotOurs where SQLite refuses a statement of ours: its values are always those that our tables take."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_refusal(error):
            raise
        raise NotOurs(f"its tables are not fallow's: {error}") from None
