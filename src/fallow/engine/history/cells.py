"""Numbers in the file that a disk has changed: each costs what it held, and no report, plot or row beside it."""

import sqlite3

from fallow.engine.history import rollup
from fallow.engine.history.sane import sane
from fallow.engine.history.sqlite_file import transaction

_NUMBERS = {
    "interval": ("span", "witnessed", "energy", "metered", "crew"),
    "sample": ("load", "loads", "memory", "memories", "power", "powers", "heat", "heats"),
}
_KEYS = {"interval": ("card", "begin", "turn"), "sample": ("card", "at", "span"), "mark": ("at",)}


def mend(database: sqlite3.Connection) -> None:
    """Make zero what is no number, delete rows that belong to no time or GPU, and make the sums again."""
    with transaction(database):
        rollup.begin_anew(database)  # until it has rows again, its triggers do nothing
        for table, columns in _NUMBERS.items():
            zeros = ", ".join(f"{column} = {sane(column)}" for column in columns)
            wrong = " OR ".join(f"{column} IS NOT {sane(column)}" for column in columns)
            database.execute(f"UPDATE {table} SET {zeros} WHERE {wrong}")  # noqa: S608  no part from outside
        database.execute("UPDATE interval SET activity = '?' WHERE typeof(activity) <> 'text'")
        for table, columns in _KEYS.items():
            wrong = " OR ".join(f"typeof({column}) <> 'integer' OR {column} <> {sane(column)}" for column in columns)
            database.execute(f"DELETE FROM {table} WHERE {wrong}")  # noqa: S608  the same
