"""The file of history: its tables, how older ones are upgraded, and how a batch is written.

It is SQLite without a write-ahead log: what is reported as written is in the one file, and there is no second one
that could be removed or emptied. A batch is one transaction: after a kill at any moment, or when the disk is full,
either all of it is there or none, and what was there before stays. The version of the tables is SQLite's
`user_version`; each script below leads from one version to the next.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from zlib import crc32

from fallow.core.errors import FallowError
from fallow.core.interval import Card
from fallow.engine.history import rollup, samples, tables
from fallow.engine.history.collector import QUARTER_MS, Batch, Piece
from fallow.engine.history.energy import Portion
from fallow.engine.history.sqlite_file import BUSY_S, Watch, identity, open_to_write, transaction

FILE_NAME = "history.db"
MIGRATIONS = (
    """
    CREATE TABLE card (
        id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, label TEXT NOT NULL, name TEXT NOT NULL,
        host TEXT NOT NULL, simulated INTEGER NOT NULL);
    CREATE TABLE crew (id INTEGER PRIMARY KEY, digest INTEGER NOT NULL, holders TEXT NOT NULL);
    CREATE INDEX crew_by_digest ON crew (digest);
    CREATE TABLE interval (
        card INTEGER NOT NULL, begin INTEGER NOT NULL, turn INTEGER NOT NULL, span INTEGER NOT NULL,
        witnessed INTEGER NOT NULL, activity TEXT NOT NULL, crew INTEGER NOT NULL,
        PRIMARY KEY (card, begin, turn)) WITHOUT ROWID;
    CREATE TABLE mark (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID
    """,
    "UPDATE interval SET activity = 'idle' WHERE activity = 'fallow'",
    "DROP TABLE IF EXISTS sample",  # means of readings, which nothing showed
    samples.TABLE,
    # Millijoules by the driver's counter, and for how many milliseconds of the interval they are known.
    """
    ALTER TABLE interval ADD COLUMN energy INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE interval ADD COLUMN metered INTEGER NOT NULL DEFAULT 0
    """,
    rollup.TABLE,
)
WITH_ENERGY, WITH_ROLLUP = 5, 6
"""The first versions of the tables with energy, and with sums for long plots."""
INSERT = "INSERT INTO interval VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
"""Write one interval: card, begin, turn, span, witnessed, activity, crew, energy, metered."""
_CREWS_REMEMBERED = 5_000
_ROWS_REMEMBERED = 10_000  # 64 GPUs that do something else at each tick, for the two minutes until they are metered
_CACHE_KIB = 512  # what is written is small, so a large page cache would only waste memory


class NewerHistory(FallowError):
    """The file was written by a newer fallow."""


def migrate(database: sqlite3.Connection, scripts: Sequence[str] = MIGRATIONS) -> None:
    """Upgrade the tables to this version, in one transaction."""
    with transaction(database):
        version = version_of(database)
        if version > len(scripts):
            raise NewerHistory(f"a newer fallow wrote it (tables {version}, known here {len(scripts)})")
        for script in scripts[max(0, version) :]:
            tables.perform(database, script)
        if version != len(scripts):
            database.execute(f"PRAGMA user_version = {len(scripts):d}")


def prepare(database: sqlite3.Connection) -> None:
    """Upgrade the tables, and mend what can be mended. Raise NotOurs if they are not those of any fallow."""
    wanted = _shapes()
    with tables.refusals_are_faults():
        try:
            migrate(database)
        except sqlite3.OperationalError as error:
            if not tables.is_refusal(error) or tables.fault(database, wanted) is not None:
                raise
            database.execute(f"PRAGMA user_version = {len(MIGRATIONS):d}")  # only that was wrong
        rollup.mend(database, wanted)
        tables.demand(database, wanted)


@cache
def _shapes() -> dict[str, tables.Shape]:
    return tables.shapes_after(MIGRATIONS, ("card", "crew", "interval", "mark", "sample", "rollup"))


def version_of(database: sqlite3.Connection) -> int:
    """Return the version of the tables of the file; 0 for a new one."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


LastWritten = dict[int, tuple[int, int, int]]
"""The rows of the pieces that were written last, by their number: they may still grow, and be metered."""


Newest = tuple[int, int]
"""The number of the GPU whose row was written last, and until when that reached."""


class Store:
    """Writes history. Every failure is an OSError, a sqlite3.Error or a FallowError, and changes nothing."""

    def __init__(self, path: str, last: LastWritten) -> None:
        """Open the existing file. `last` outlives the store: one that is opened again continues unfinished pieces."""
        self._path = path
        self.database, self.was_empty = open_to_write(path, BUSY_S, _CACHE_KIB, prepare)
        self.file = identity(path)
        self._cards: dict[str, int] = {}
        self._crews: dict[str, int] = {}
        self._last = last
        self._watch = Watch(self.database)
        self.newest: Newest | None = None

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    @property
    def is_taken_away(self) -> bool:
        """Return whether the open file is no longer what others find, so that what is written would not be read."""
        return identity(self._path) != self.file

    def may_be_another(self) -> bool:
        """Return whether anybody else has written the file since the last call, or it was just opened.

        Then a GPU or a crew may have another number in it, or none.
        """
        if not self._watch.others_wrote():
            return False
        self.forget()
        return True

    def has_other_tables(self) -> bool:
        """Return whether anybody has changed the tables: then the file must be opened again."""
        return self._watch.has_other_tables()

    def missing_since_ms(self, newest: Newest) -> int | None:
        """Return since when rows are missing, if none reaches as far as the one that was written last; else None."""
        card, end_ms = newest
        question = "SELECT 1 FROM interval WHERE card = ? AND begin >= ? AND begin + span >= ?"
        if self.database.execute(question, (card, end_ms - QUARTER_MS, end_ms)).fetchone() is not None:
            return None
        return int(self.database.execute("SELECT coalesce(max(begin + span), 0) FROM interval").fetchone()[0])

    def write(self, batch: Batch) -> None:
        """Write the whole batch, or nothing."""
        last = dict(self._last)
        try:
            with self._own_tables(), transaction(self.database):
                if not self._watch.is_as_seen:
                    self.forget()
                for card in batch.cards.values():
                    self._write_card(card)
                for piece in batch.pieces:
                    self._write_piece(piece, last)
                samples.write(self.database, batch.samples, self._card)
                for portion in batch.energy:
                    self._write_energy(portion, last)
        except BaseException:
            self.forget()
            raise
        if batch.pieces:
            piece = batch.pieces[-1]
            self.newest = last[piece.number][0], piece.end_ms
        self._last.clear()
        self._last.update(islice(last.items(), max(0, len(last) - _ROWS_REMEMBERED), None))

    def _own_tables(self) -> AbstractContextManager[None]:
        """Return a block in which a refusal means that the tables are not ours; those that we have made are."""
        return nullcontext() if self.was_empty else tables.refusals_are_faults()

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
                "UPDATE interval SET span = ?, witnessed = ? WHERE card = ? AND begin = ? AND turn = ?",
                (span, span, *where),
            )
            if grown.rowcount:
                last[piece.number] = last.pop(piece.number)  # to the end: the oldest are forgotten first
                return
        card = self._card(piece.uuid)
        question = "SELECT coalesce(max(turn) + 1, 0) FROM interval WHERE card = ? AND begin = ?"
        (turn,) = self.database.execute(question, (card, piece.begin_ms)).fetchone()
        where = (card, piece.begin_ms, int(turn))
        row = (*where, span, span, piece.activity.value, self.crew(piece.crew), 0, 0)
        self.database.execute(INSERT, row)
        last[piece.number] = where

    def _write_energy(self, portion: Portion, last: LastWritten) -> None:
        """Add energy to the row of a piece; of one whose row is not known any more it stays unknown."""
        where = last.get(portion.number)
        if where is not None:
            self.database.execute(
                "UPDATE interval SET energy = energy + ?, metered = min(witnessed, metered + ?) "
                "WHERE card = ? AND begin = ? AND turn = ?",
                (portion.energy_mj, portion.ms, *where),
            )
