"""The journal: what was found, what was done about it, and what came of that.

SQLite with a write-ahead log: whoever is killed at any moment, every row that was written is there afterwards. A
journal that cannot be written is told once and stops nothing: policies do not hang on it.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from fallow.core.verdicts import Event, Evidence, Verdict

__all__ = ["Event", "Journal"]

_MOST_ROWS = 20_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    finding TEXT NOT NULL, because TEXT NOT NULL, evidence TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS about (key TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rest_power (uuid TEXT PRIMARY KEY, watts REAL NOT NULL);
"""


class Journal:
    """The journal of one user on this machine."""

    def __init__(
        self, folder: str, wall_s: Callable[[], float], tell: Callable[[str], None], most_rows: int = _MOST_ROWS
    ) -> None:
        """`tell` gets the one sentence that says why nothing is kept, if nothing can be."""
        self._wall_s = wall_s
        self._tell = tell
        self._most_rows = most_rows
        self._rows = 0
        self._missed = False
        self._given_up = False
        self._told = ""
        self._database: sqlite3.Connection | None = None
        self._folder = folder
        self._path = os.path.join(folder, "journal.db")
        self._open()

    def _open(self) -> None:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # it names people
            self._database = sqlite3.connect(self._path, timeout=2.0, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            self._give_up(f"no journal is kept in {self._folder}: {error}")

    def verdict(self, verdict: Verdict, keys: Iterable[str]) -> None:
        """What was found, with the readings that say so."""
        self._write("verdict", verdict.subject, verdict.finding, verdict.because, verdict.evidence, keys)

    def action(self, subject: str, deed: str, because: str, keys: Iterable[str]) -> None:
        """What is about to be done, written before it is."""
        self._write("action", subject, deed, because, (), keys)

    def outcome(self, subject: str, deed: str, words: str, keys: Iterable[str]) -> None:
        """What came of it."""
        self._write("outcome", subject, deed, words, (), keys)

    def refusal(self, subject: str, deed: str, why: str, keys: Iterable[str]) -> None:
        """What was not allowed, and why."""
        self._write("refusal", subject, deed, why, (), keys)

    def last(self, key: str | None, most: int = 30) -> list[Event]:
        """The last events about a GPU or a process, newest first; without a key, about anything."""
        which = "" if key is None else "WHERE id IN (SELECT event FROM about WHERE key = ?)"
        question = f"SELECT * FROM event {which} ORDER BY id DESC LIMIT {most:d}"  # noqa: S608  no part from outside
        rows = self._read(question, () if key is None else (key,))
        return [_event(row) for row in rows]

    def rest_power_w(self) -> dict[str, float]:
        """What each card is known to draw at rest."""
        return {str(uuid): float(watts) for uuid, watts in self._read("SELECT uuid, watts FROM rest_power")}

    def remember_rest_power(self, uuid: str, watts: float) -> None:
        """Keep what was learned of a card."""
        self._run("INSERT OR REPLACE INTO rest_power VALUES (?, ?)", (uuid, watts))

    def close(self) -> None:
        """Done."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(
        self, kind: str, subject: str, finding: str, because: str, evidence: Evidence, keys: Iterable[str]
    ) -> None:
        if self._given_up and not os.path.exists(self._path):
            self._given_up = False  # whoever took the damaged one away wants a new one
            self._open()
        elif self._database is not None and not os.path.exists(self._path):
            self._tell("the journal was taken away, and begins anew")
            self.close()
            self._open()
        if self._database is None:
            return
        texts = [text.encode(errors="replace").decode() for text in (kind, subject, finding, because)]
        row = (self._wall_s(), *texts, json.dumps(evidence))
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                cursor = self._database.execute(
                    "INSERT INTO event (at, kind, subject, finding, because, evidence) VALUES (?, ?, ?, ?, ?, ?)", row
                )
                about = [(key, cursor.lastrowid) for key in set(keys)]
                self._database.executemany("INSERT INTO about VALUES (?, ?)", about)
            self._rows += 1
            self._missed = False
            if self._rows % (1 + self._most_rows // 40) == 0:
                self._trim()
        except sqlite3.OperationalError as error:
            self._miss(error)
        except sqlite3.Error as error:
            self._give_up(f"the journal cannot be written any more: {error}")

    def _miss(self, error: sqlite3.OperationalError) -> None:
        """Somebody else has it, or the disk is full: told once, and tried again with the next row."""
        if not self._missed:
            self._tell(f"the journal cannot be written now: {error}")
        self._missed = True

    def _trim(self) -> None:
        oldest = "(SELECT max(id) FROM event) - ?"
        self._run(f"DELETE FROM about WHERE event < {oldest}", (self._most_rows,))  # noqa: S608  no part from outside
        self._run(f"DELETE FROM event WHERE id < {oldest}", (self._most_rows,))  # noqa: S608  the same

    def _run(self, statement: str, values: tuple[object, ...]) -> None:
        if self._database is not None:
            try:
                self._database.execute(statement, values)
            except sqlite3.Error as error:
                self._give_up(f"the journal cannot be written any more: {error}")

    def _read(self, question: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        if self._database is None:
            return []
        try:
            return self._database.execute(question, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(f"the journal cannot be read: {error}")
            return []

    def _give_up(self, sentence: str) -> None:
        self.close()
        self._given_up = True
        if sentence != self._told:
            self._told = sentence
            self._tell(sentence)


def _event(row: tuple[Any, ...]) -> Event:
    number, wall_s, kind, subject, finding, because, evidence = row
    try:
        pairs = tuple((str(name), str(text)) for name, text in json.loads(evidence))
    except (ValueError, TypeError):
        pairs = (("evidence", "cannot be read any more"),)
    return Event(number, wall_s, kind, subject, finding, because, pairs)
