"""Tables that others have changed are mended, or set aside with the time before which rows are missing."""

import pathlib
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
from fallow.engine.history.sqlite_file import clock_time
from fallow.engine.history.store import MIGRATIONS
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, status
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.more

AS_COPY = "CREATE TABLE copied AS SELECT * FROM {0}; DROP TABLE {0}; ALTER TABLE copied RENAME TO {0}"
AS_VIEW = "ALTER TABLE {0} RENAME TO renamed; CREATE VIEW {0} AS SELECT * FROM renamed"
LATER_MS = round(START_S * 1000) + 30_500
HISTORY = {
    "a table is missing": ["DROP TABLE interval", "DROP TABLE card", "DROP TABLE crew", "DROP TABLE sample"],
    "the marks are missing": ["DROP TABLE mark"],
    "a table is a view": [AS_VIEW.format("card"), "DROP TABLE sample; CREATE VIEW sample AS SELECT 1 AS card"],
    "a column is missing": ["ALTER TABLE sample DROP COLUMN heat", "ALTER TABLE card DROP COLUMN host"],
    "a column is too many": ["ALTER TABLE interval ADD COLUMN more INTEGER"],
    "there are no keys": [AS_COPY.format("card"), AS_COPY.format("interval"), AS_COPY.format("sample")],
    "a key is too many": ["CREATE UNIQUE INDEX mine ON interval (begin, card)"],
    "rows are refused": ["CREATE TRIGGER no BEFORE INSERT ON interval BEGIN SELECT RAISE(ABORT, 'no'); END"],
    "rows are swallowed": ["CREATE TRIGGER no BEFORE INSERT ON sample BEGIN SELECT RAISE(IGNORE); END"],
    "rows must be as others say": [f"CREATE INDEX mine ON interval (iif(begin > {LATER_MS}, json(activity), 0))"],
}
JOURNAL = {
    "a table is missing": ["DROP TABLE event", "DROP TABLE about"],
    "a table is a view": [AS_VIEW.format("event"), AS_VIEW.format("about"), AS_VIEW.format("rest_power")],
    "a column is missing": ["ALTER TABLE event DROP COLUMN because"],
    "a column is too many": ["ALTER TABLE event ADD COLUMN more", "ALTER TABLE about ADD COLUMN more"],
    "there are no keys": [AS_COPY.format("event"), AS_COPY.format("about"), AS_COPY.format("rest_power")],
    "a key is too many": ["CREATE UNIQUE INDEX mine ON event (subject)"],
    "rows are refused": ["CREATE TRIGGER no BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no'); END"],
    "rows are swallowed": ["CREATE TRIGGER no BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END"],
    "rows must be as others say": ["CREATE INDEX mine ON event (iif(id > 1, json(subject), 0))"],
}
VERSIONS = (-1, 0, *range(1, len(MIGRATIONS)))
each_history = pytest.mark.parametrize("script", [each for scripts in HISTORY.values() for each in scripts])
each_journal = pytest.mark.parametrize("script", [each for scripts in JOURNAL.values() for each in scripts])


def change(file: pathlib.Path, script: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.executescript(script)


def watch(folder: pathlib.Path, told: list[str], seconds: range, between: Callable[[], None] = lambda: None) -> None:
    """A GPU is idle and busy in turn, and somebody does something in the middle."""
    history = HistoryWriter(str(folder), told.append)
    for second in seconds:
        kind = (Activity.IDLE, Activity.BUSY)[second // 8 % 2]
        history.record(status(START_S + second, gpu_status(0, kind, holder())))
        assert history.settle(LIMIT_S)
        if second == seconds[len(seconds) // 2]:
            between()
    history.close()


def seconds_of(folder: pathlib.Path, name: str = "history.db") -> int:
    with closing(sqlite3.connect(folder / name)) as database:
        return int(database.execute("SELECT coalesce(sum(witnessed), 0) / 1000 FROM interval").fetchone()[0])


@each_history
def test_history_with_tables_that_cannot_be_used_is_set_aside_when_it_is_opened(
    tmp_path: pathlib.Path, script: str
) -> None:
    told: list[str] = []
    watch(tmp_path, told, range(21))
    change(tmp_path / "history.db", script)
    watch(tmp_path, told, range(100, 121))
    (sentence,) = told
    assert sentence.startswith("history was damaged (its tables are not fallow's: ")
    assert sentence.endswith(f" is in {tmp_path / 'history.db.damaged-1'}, and a new one begins")
    first_write_and_first_row = (f"before {clock_time(START_S + second)} " for second in (100, 104))
    assert any(when in sentence for when in first_write_and_first_row)
    assert seconds_of(tmp_path) == 20
    if "DROP TABLE interval" not in script:
        assert seconds_of(tmp_path, "history.db.damaged-1") == 20, "nothing of it is deleted"


@each_history
def test_history_whose_tables_are_changed_while_it_is_written_is_set_aside_at_once(
    tmp_path: pathlib.Path, script: str
) -> None:
    told: list[str] = []
    watch(tmp_path, told, range(61), lambda: change(tmp_path / "history.db", script))
    (sentence,) = told
    assert sentence.startswith("history was damaged (its tables are not fallow's: ")
    assert f"before {clock_time(START_S + 32)} is in {tmp_path / 'history.db.damaged-1'}" in sentence
    assert seconds_of(tmp_path) >= 60 - 32


@pytest.mark.parametrize("version", VERSIONS)
def test_history_that_only_names_a_wrong_version_goes_on(tmp_path: pathlib.Path, version: int) -> None:
    told: list[str] = []
    file, script = tmp_path / "history.db", f"PRAGMA user_version = {version}"
    watch(tmp_path, told, range(21))
    change(file, script)
    watch(tmp_path, told, range(100, 121), lambda: change(file, script))
    opened = past(tmp_path)
    assert sum(each.witnessed_ms for each in opened.tallies([0, 2**50])) == 40_000
    opened.close()
    assert told == []


SUMS = "SELECT sum(witnessed) FROM rollup WHERE step = 3600000"
CHANGED_SUMS = [
    "DROP TABLE rollup",
    "DROP TABLE rollup; CREATE TABLE rollup (card, step)",
    "DROP TABLE rollup; CREATE VIEW rollup AS SELECT * FROM interval",
    "DROP TRIGGER interval_added; DROP TRIGGER interval_grown",
    "DROP TRIGGER interval_added; CREATE TRIGGER interval_added AFTER INSERT ON crew BEGIN DELETE FROM rollup; END",
    "DELETE FROM mark",
]


@pytest.mark.parametrize("script", CHANGED_SUMS)
def test_sums_that_others_have_changed_are_made_again_and_cost_no_row(tmp_path: pathlib.Path, script: str) -> None:
    told: list[str] = []
    watch(tmp_path, told, range(21))
    watch(tmp_path, told, range(40_000, 40_021))
    change(tmp_path / "history.db", script)
    watch(tmp_path, told, range(80_000, 80_021))
    with closing(sqlite3.connect(tmp_path / "history.db")) as database:
        assert database.execute(SUMS).fetchone() == (40_000,), "of all that is long over"
    assert seconds_of(tmp_path) == 60
    assert told == []


@pytest.mark.parametrize("running", [False, True])
@each_journal
def test_a_journal_with_tables_that_cannot_be_used_is_set_aside(
    tmp_path: pathlib.Path, script: str, *, running: bool
) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 60.0, told.append)
    journal.action("job", "ask", said("1"), ["gpu:1"])
    if not running:
        journal.close()
    change(tmp_path / "journal.db", script)
    if not running:
        journal = Journal(str(tmp_path), lambda: 60.0, told.append)
    journal.action("job", "ask", said("2"), ["gpu:1"])
    journal.action("job", "ask", said("3"), ["gpu:1"])
    journal.remember_rest_power("GPU-1", 126.0)
    assert [event.because for event in journal.last("gpu:1")] == ["3", "2"]
    assert journal.rest_power_w() == {"GPU-1": 126.0}
    journal.close()
    (sentence,) = told
    assert sentence.startswith("the journal was damaged (")
    kept = tmp_path / "journal.db.damaged-1"
    assert sentence.endswith(f"rows from before {clock_time(60)} are in {kept}, and a new one begins")
    if "DROP TABLE event" not in script or "RENAME" in script:
        with closing(sqlite3.connect(kept)) as database:
            assert database.execute("SELECT count(*) FROM event").fetchone() == (1,), "nothing of it is deleted"


def test_tables_of_another_program_beside_ours_are_left_alone(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    for name in ("history.db", "journal.db"):
        change(tmp_path / name, "CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('ada')")
    watch(tmp_path, told, range(21))
    journal = Journal(str(tmp_path), lambda: 60.0, told.append)
    journal.action("job", "ask", said("1"), ["gpu:1"])
    journal.close()
    for name in ("history.db", "journal.db"):
        with closing(sqlite3.connect(tmp_path / name)) as database:
            assert database.execute("SELECT name FROM people").fetchall() == [("ada",)]
    assert seconds_of(tmp_path) == 20
    assert len(journal_file.read(str(tmp_path), None, 9)) == 1
    assert told == []


def test_of_damaged_files_that_are_too_many_it_is_said_that_an_older_one_is_gone(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    for number in range(1, 7):
        watch(tmp_path, told, range(number * 100, number * 100 + 21))
        (tmp_path / "history.db").write_bytes(f"damage {number} ".encode() * 1000)
        (tmp_path / "history.db-journal").write_bytes(b"" if number == 6 else b"of the damaged one")
    watch(tmp_path, told, range(900, 921))
    assert [sentence.count(", which is gone") for sentence in told] == [0, 0, 0, 0, 0, 1]
    kept = tmp_path / "history.db.damaged-5"
    assert kept.read_bytes().startswith(b"damage 6 ")
    assert (tmp_path / "history.db.damaged-5-journal").read_bytes() == b"", "no log of another file is beside it"
    assert (tmp_path / "history.db.damaged-4").read_bytes().startswith(b"damage 4 ")
