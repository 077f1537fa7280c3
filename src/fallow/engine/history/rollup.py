"""Sums of the intervals in steps of one and of four hours: a plot of weeks reads thousands of rows, not a million.

They hold what begins before the mark `rolled_until`, and are never more than a copy: of each GPU and step, the time
that was witnessed of each activity and crew. Triggers keep them equal to the intervals, whoever changes one there:
when history gets coarser, is deleted, or a clock that was set back writes into the past. What comes after the mark is
read from the intervals themselves. So the rows of this minute, which grow every four seconds, cost nothing here.

The mark moves on after a write, by a day at most at a time. So the history of an older fallow is filled in within
minutes, beside the loop, and is read as before until then.
"""

import sqlite3

from fallow.engine.history.collector import QUARTER_MS
from fallow.engine.history.sane import number, sane
from fallow.engine.history.sqlite_file import transaction
from fallow.engine.history.tables import Shape, perform, shape_of

STEPS_MS = (3_600_000, 14_400_000)
"""The steps: those of the plots of a week and of a month."""
MARK = "SELECT at FROM mark WHERE name = 'rolled_until'"
"""The question before which time the sums are complete."""
_LONGEST_MS = STEPS_MS[-1]
_AT_ONCE_MS = 86_400_000
_ROLLED = f"begin < ({MARK})"
_ADD = "ON CONFLICT DO UPDATE SET witnessed = witnessed + excluded.witnessed"
_SAME = (
    "card = old.card AND step = {0} AND begin = old.begin / {0} * {0} AND activity = old.activity AND crew = old.crew"
)


def _added() -> str:
    return "".join(
        f"INSERT INTO rollup VALUES (new.card, {step}, new.begin / {step} * {step}, new.activity, new.crew, "  # noqa: S608  no part from outside
        f"new.witnessed) {_ADD};"
        for step in STEPS_MS
    )


def _removed() -> str:
    return "".join(
        f"UPDATE rollup SET witnessed = witnessed - old.witnessed WHERE {_SAME.format(step)};"  # noqa: S608  no part from outside
        f"DELETE FROM rollup WHERE {_SAME.format(step)} AND witnessed <= 0;"
        for step in STEPS_MS
    )


TRIGGERS = ("interval_added", "interval_removed", "interval_grown")
TABLE = f"""
    CREATE TABLE rollup (
        card INTEGER NOT NULL, step INTEGER NOT NULL, begin INTEGER NOT NULL, activity TEXT NOT NULL,
        crew INTEGER NOT NULL, witnessed INTEGER NOT NULL,
        PRIMARY KEY (step, begin, activity, crew, card)) WITHOUT ROWID;
    INSERT OR REPLACE INTO mark VALUES ('rolled_until', 0);
    CREATE TRIGGER {TRIGGERS[0]} AFTER INSERT ON interval WHEN new.{_ROLLED} BEGIN {_added()} END;
    CREATE TRIGGER {TRIGGERS[1]} AFTER DELETE ON interval WHEN old.{_ROLLED} BEGIN {_removed()} END;
    CREATE TRIGGER {TRIGGERS[2]} AFTER UPDATE OF witnessed, activity, crew ON interval WHEN old.{_ROLLED}
        BEGIN {_removed()} {_added()} END
"""  # noqa: S608  no part from outside
"""The table, and what keeps it equal to the intervals. A row never gets another card or beginning.

Its key is in the order in which a plot of all GPUs adds up, so that SQLite sorts nothing for that.
"""


ROLLED = {"table": "rollup", "at": "begin", "where": "step = ?1 AND"}
PLAIN = {"table": "interval", "at": "begin / ?1 * ?1", "where": ""}
"""Where `questions` look: into the sums, or into the intervals themselves."""


def questions(cards: int) -> tuple[str, str]:
    """Return two questions on so many GPUs, for step, GPUs, since, until.

    The first asks for the time of each step, activity and crew. The second asks of each step how many GPUs were seen,
    and for how long the one that was seen longest. An interval lies in one quarter of an hour, and so in one step.
    """
    source = f"FROM {{table}} WHERE {{where}} card IN ({', '.join(['?'] * cards)}) AND begin >= ? AND begin < ?"
    sums = f"SELECT {{at}}, {{at}} + ?1, sum({sane('witnessed')}), activity, crew {source} GROUP BY 1, activity, crew"
    of_card = f"SELECT {{at}} AS at, sum({sane('witnessed')}) AS ms {source} GROUP BY card, 1 HAVING ms > 0"
    return sums, f"SELECT at, count(*), max(ms) FROM ({of_card}) GROUP BY at"  # noqa: S608  the same


def rolled_until_ms(database: sqlite3.Connection) -> int:
    """Return before which time the sums are complete."""
    found = database.execute(MARK).fetchone()
    return 0 if found is None else number(found[0])


def mend(database: sqlite3.Connection, wanted: dict[str, Shape]) -> None:
    """Begin the sums anew if anybody has changed them, or what keeps them equal: they are only a copy."""
    found, of = shape_of(database, "rollup"), shape_of(database, "interval")
    if of is None or of.kind != "table":
        return  # there is nothing to sum up
    ours = {(name, text) for name, text in of.triggers if name in TRIGGERS}
    (mark,) = database.execute(MARK).fetchone() or (None,)
    if (
        found == wanted["rollup"]
        and ours == wanted["interval"].triggers
        and mark is not None
        and mark == number(mark)
    ):
        return
    with transaction(database):
        begin_anew(database)


def begin_anew(database: sqlite3.Connection) -> None:
    """Make the table and its triggers again, empty, in the transaction that is open."""
    found = shape_of(database, "rollup")
    for name in TRIGGERS:
        database.execute(f"DROP TRIGGER IF EXISTS {name}")
    if found is not None:
        database.execute(f"DROP {found.kind} rollup")
    perform(database, TABLE)


def roll_on(database: sqlite3.Connection, now_ms: int) -> bool:
    """Sum up the next day, or less, of what is over; return whether there may be more."""
    since_ms, last_ms = rolled_until_ms(database), (now_ms - QUARTER_MS) // _LONGEST_MS * _LONGEST_MS
    if since_ms >= last_ms:
        return False
    cards = [int(number) for (number,) in database.execute("SELECT id FROM card").fetchall()]
    first = "SELECT min(begin) FROM interval WHERE card = ? AND begin >= ? AND begin < ?"
    found = [database.execute(first, (card, since_ms, last_ms)).fetchone()[0] for card in cards]
    begin_ms = min((int(begin) for begin in found if begin is not None), default=last_ms)
    until_ms = min(last_ms, begin_ms // _LONGEST_MS * _LONGEST_MS + _AT_ONCE_MS)
    with transaction(database):
        for card in cards:
            for step in STEPS_MS:
                database.execute(
                    "INSERT INTO rollup "  # noqa: S608  no part from outside
                    f"SELECT card, {step}, begin / {step} * {step}, activity, crew, sum({sane('witnessed')}) "
                    "FROM interval WHERE card = ? AND begin >= ? AND begin < ? GROUP BY 3, activity, crew",
                    (card, since_ms, until_ms),
                )
        database.execute("UPDATE mark SET at = ? WHERE name = 'rolled_until'", (until_ms,))
    return until_ms < last_ms
