"""Sums of the intervals in steps of one and of four hours: a plot of weeks reads thousands of rows, not a million.

They hold what begins before the mark `rolled_until`, and are never more than a copy: of each GPU and step, the time
that was witnessed of each activity and crew. Triggers keep them equal to the intervals, whoever changes one there:
when history gets coarser, is deleted, or a clock that was set back writes into the past. What comes after the mark is
read from the intervals themselves. So the rows of this minute, which grow every four seconds, cost nothing here.

The mark moves on after a write, by a day at most at a time, and what comes after it is read as before.
"""

import sqlite3

from fallow.engine.history.collector import QUARTER_MS
from fallow.engine.history.marks import mark, set_mark
from fallow.engine.history.sqlite_file import transaction

STEPS_MS = (3_600_000, 14_400_000)
"""The steps: those of the plots of a week and of a month."""
MARK = "rolled_until"
"""The name of the time before which the sums are complete."""
_LONGEST_MS = STEPS_MS[-1]
_AT_ONCE_MS = 86_400_000
_ROLLED = f"begin < (SELECT at FROM mark WHERE name = '{MARK}')"  # noqa: S608  no part from outside
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


TABLE = f"""
    CREATE TABLE IF NOT EXISTS rollup (
        card INTEGER NOT NULL, step INTEGER NOT NULL, begin INTEGER NOT NULL, activity TEXT NOT NULL,
        crew INTEGER NOT NULL, witnessed INTEGER NOT NULL,
        PRIMARY KEY (step, begin, activity, crew, card)) WITHOUT ROWID;
    INSERT OR IGNORE INTO mark VALUES ('{MARK}', 0);
    CREATE TRIGGER IF NOT EXISTS interval_added AFTER INSERT ON interval WHEN new.{_ROLLED} BEGIN {_added()} END;
    CREATE TRIGGER IF NOT EXISTS interval_removed AFTER DELETE ON interval WHEN old.{_ROLLED} BEGIN {_removed()} END;
    CREATE TRIGGER IF NOT EXISTS interval_grown AFTER UPDATE OF witnessed, activity, crew ON interval
        WHEN old.{_ROLLED} BEGIN {_removed()} {_added()} END
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
    sums = f"SELECT {{at}}, {{at}} + ?1, sum(witnessed), activity, crew {source} GROUP BY 1, activity, crew"
    of_card = f"SELECT {{at}} AS at, sum(witnessed) AS ms {source} GROUP BY card, 1 HAVING ms > 0"
    return sums, f"SELECT at, count(*), max(ms) FROM ({of_card}) GROUP BY at"  # noqa: S608  the same


def roll_on(database: sqlite3.Connection, now_ms: int) -> bool:
    """Sum up the next day, or less, of what is over; return whether there may be more."""
    since_ms, last_ms = mark(database, MARK), (now_ms - QUARTER_MS) // _LONGEST_MS * _LONGEST_MS
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
                    f"SELECT card, {step}, begin / {step} * {step}, activity, crew, sum(witnessed) "
                    "FROM interval WHERE card = ? AND begin >= ? AND begin < ? GROUP BY 3, activity, crew",
                    (card, since_ms, until_ms),
                )
        set_mark(database, MARK, until_ms)
    return until_ms < last_ms
