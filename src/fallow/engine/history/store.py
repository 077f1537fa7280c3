"""The file of history: its tables, and how a batch is written.

A batch is one transaction: after a kill at any moment, or when the disk is full, either all of it is there or none,
and what was there before stays.
"""

import sqlite3
from itertools import islice
from zlib import crc32

from fallow.core.interval import Card
from fallow.engine.history import marks, samples
from fallow.engine.history.collector import Batch, Piece
from fallow.engine.history.sqlite_file import Schema, transaction

FILE_NAME = "history.db"
_INTERVALS = """
    CREATE TABLE IF NOT EXISTS card (
        id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, label TEXT NOT NULL, name TEXT NOT NULL,
        host TEXT NOT NULL, simulated INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS crew (id INTEGER PRIMARY KEY, digest INTEGER NOT NULL, holders TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS crew_by_digest ON crew (digest);
    CREATE TABLE IF NOT EXISTS interval (
        card INTEGER NOT NULL, begin INTEGER NOT NULL, turn INTEGER NOT NULL, span INTEGER NOT NULL,
        witnessed INTEGER NOT NULL, activity TEXT NOT NULL, crew INTEGER NOT NULL,
        energy INTEGER NOT NULL, metered INTEGER NOT NULL,
        PRIMARY KEY (card, begin, turn)) WITHOUT ROWID
"""
"""Energy is in millijoules by the power that was read, and known for so many milliseconds of the interval."""
SCHEMA = Schema(1, ";".join((_INTERVALS, marks.TABLE, samples.TABLE)))
INSERT = "INSERT INTO interval VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
"""Write one interval: card, begin, turn, span, witnessed, activity, crew, energy, metered."""
_CREWS_REMEMBERED = 5_000
_ROWS_REMEMBERED = 10_000


LastWritten = dict[int, tuple[int, int, int]]
"""The rows of the pieces that were written last, by their number: they may still grow."""


class Store:
    """Writes history. Every failure is an OSError or a sqlite3.Error, and changes nothing."""

    def __init__(self, database: sqlite3.Connection, last: LastWritten) -> None:
        """`last` outlives the store: one that is opened again continues unfinished pieces."""
        self.database = database
        self._cards: dict[str, int] = {}
        self._crews: dict[str, int] = {}
        self._last = last

    def write(self, batch: Batch) -> None:
        """Write the whole batch, or nothing."""
        last = dict(self._last)
        try:
            with transaction(self.database):
                for card in batch.cards.values():
                    self._write_card(card)
                for piece in batch.pieces:
                    self._write_piece(piece, last)
                samples.write(self.database, batch.samples, self._card)
        except BaseException:
            self.forget()
            raise
        self._last.clear()
        self._last.update(islice(last.items(), max(0, len(last) - _ROWS_REMEMBERED), None))

    def forget(self) -> None:
        """Forget the numbers of GPUs and crews: some may be gone, or never have been written."""
        self._cards.clear()
        self._crews.clear()

    def crew(self, text: str) -> int:
        """Return the number under which these holders are stored; a new one if they were never seen."""
        number = self._crews.get(text)
        if number is None:
            if len(self._crews) >= _CREWS_REMEMBERED:
                self._crews.clear()
            number = self._crews[text] = self._find_crew(text)
        return number

    def _find_crew(self, text: str) -> int:
        digest = crc32(text.encode())
        question = "SELECT id FROM crew WHERE digest = ? AND holders = ?"
        found = self.database.execute(question, (digest, text)).fetchone()
        if found is not None:
            return int(found[0])
        made = self.database.execute("INSERT INTO crew (digest, holders) VALUES (?, ?)", (digest, text))
        return made.lastrowid or 0

    def _write_card(self, card: Card) -> None:
        self.database.execute(
            "INSERT INTO card (uuid, label, name, host, simulated) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (uuid) DO UPDATE SET label = excluded.label, name = excluded.name, "
            "host = excluded.host, simulated = excluded.simulated",
            (card.uuid, card.label, card.name, card.host, card.simulated),
        )

    def _card(self, uuid: str) -> int:
        number = self._cards.get(uuid)
        if number is None:
            (found,) = self.database.execute("SELECT id FROM card WHERE uuid = ?", (uuid,)).fetchone()
            number = self._cards[uuid] = int(found)
        return number

    def _write_piece(self, piece: Piece, last: LastWritten) -> None:
        """Write a piece: update the one that has grown, else add a new one, also if the clock went back."""
        span = piece.end_ms - piece.begin_ms
        where = last.get(piece.number)
        if where is not None:
            grown = self.database.execute(
                "UPDATE interval SET span = ?, witnessed = ?, energy = ?, metered = ? "
                "WHERE card = ? AND begin = ? AND turn = ?",
                (span, span, piece.energy_mj, piece.metered_ms, *where),
            )
            if grown.rowcount:
                last[piece.number] = last.pop(piece.number)  # to the end: the oldest are forgotten first
                return
        card = self._card(piece.uuid)
        question = "SELECT coalesce(max(turn) + 1, 0) FROM interval WHERE card = ? AND begin = ?"
        (turn,) = self.database.execute(question, (card, piece.begin_ms)).fetchone()
        where = (card, piece.begin_ms, int(turn))
        crew = self.crew(piece.crew)
        row = (*where, span, span, piece.activity.value, crew, piece.energy_mj, piece.metered_ms)
        self.database.execute(INSERT, row)
        last[piece.number] = where
