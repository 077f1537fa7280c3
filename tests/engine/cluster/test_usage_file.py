"""The file of what a cluster did can be changed by others at any moment: what is gone is said, with its time."""

import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.engine.cluster.usage import FILE_NAME, UsageFile, read_usage
from fallow.engine.history.sqlite_file import clock_time
from tests.engine.cluster.planned import PlannedCluster, job, reading, rule

pytestmark = pytest.mark.more

WHAT = "the file of what the cluster did"


class Kept:
    """A cluster in which ada holds two GPUs, looked at every half minute, and the file that keeps it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.cluster = PlannedCluster(folder, rule(acts=False), keep_usage=str(folder / "state"))
        self.cluster.engine.jobs = [job(7)]
        self.cluster.eyes.gpus = [reading(0, 0.5), reading(1, 0.0)]
        self.file = folder / "state" / FILE_NAME
        assert isinstance(self.cluster.loop.usage, UsageFile)
        self.usage = self.cluster.loop.usage

    def look(self, times: int) -> None:
        """Look so often; what was seen by then is written."""
        self.cluster.look(times)
        self.seconds()

    def seconds(self) -> float:
        """How long ada's GPUs were held, by the report."""
        now_s = self.cluster.clock.wall_s()
        rows = self.usage.rows("user", now_s - 86_400, now_s + 1)
        return sum(row.held_s for row in rows if row.name == "ada")

    def time(self) -> str:
        """When the last look was."""
        return clock_time(self.cluster.clock.wall_s())

    def told(self) -> list[str]:
        """What was said of the file."""
        return [sentence for sentence in self.cluster.said if "the cluster did" in sentence]


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> Kept:
    return Kept(tmp_path)


@pytest.mark.parametrize("in_its_place", [False, True])
def test_what_an_older_copy_of_the_file_lacks_is_said_to_be_gone(
    kept: Kept, tmp_path: pathlib.Path, *, in_its_place: bool
) -> None:
    kept.look(5)
    older, since = kept.file.read_bytes(), kept.time()
    kept.look(6)
    assert kept.seconds() == 600
    if in_its_place:
        (tmp_path / "copy").write_bytes(older)
        (tmp_path / "copy").replace(kept.file)
    else:
        kept.file.write_bytes(older)
    kept.look(4)
    assert kept.seconds() == 240 + 240, "the last ones are not lost with the others"
    (sentence,) = kept.told()
    assert sentence.startswith(f"{WHAT} was replaced by an older copy: what was written between {since} and ")


def test_a_copy_that_lacks_nothing_and_a_file_that_was_packed_are_no_older_copy(
    kept: Kept, tmp_path: pathlib.Path
) -> None:
    kept.look(5)
    (tmp_path / "copy").write_bytes(kept.file.read_bytes())
    (tmp_path / "copy").replace(kept.file)
    kept.look(3)
    with closing(sqlite3.connect(kept.file, isolation_level=None)) as other:
        other.execute("VACUUM")
    kept.look(3)
    assert kept.seconds() == 600
    assert kept.told() == []


@pytest.mark.parametrize("emptied", [False, True])
def test_a_file_that_was_taken_away_begins_anew_and_that_is_said_with_the_time(kept: Kept, *, emptied: bool) -> None:
    kept.look(5)
    if emptied:
        kept.file.write_bytes(b"")
    else:
        kept.file.unlink()
    kept.look(4)
    assert kept.seconds() == 240
    (sentence,) = kept.told()
    assert sentence.startswith(f"{WHAT} was taken away: what was before ")


@pytest.mark.parametrize(
    "script",
    [
        "DROP TABLE usage",
        "ALTER TABLE usage DROP COLUMN idle",
        "ALTER TABLE usage RENAME TO renamed; CREATE VIEW usage AS SELECT * FROM renamed",
        "CREATE TABLE copied AS SELECT * FROM usage; DROP TABLE usage; ALTER TABLE copied RENAME TO usage",
        "CREATE TRIGGER no BEFORE INSERT ON usage BEGIN SELECT RAISE(IGNORE); END",
        "CREATE INDEX mine ON usage (iif(busy > 200, json(kind), 0))",
    ],
)
def test_a_file_with_tables_that_cannot_be_used_is_set_aside_and_nothing_waits_for_a_new_one(
    kept: Kept, script: str
) -> None:
    kept.look(5)
    with closing(sqlite3.connect(kept.file, isolation_level=None)) as other:
        other.executescript(script)
    kept.look(6)
    assert kept.seconds() >= 120
    (sentence,) = kept.told()
    assert sentence.startswith(f"{WHAT} was damaged (its tables are not fallow's: ")
    assert sentence.endswith(f" is in {kept.file}.damaged-1, and a new one begins")


def test_what_could_not_be_written_until_the_end_is_told_with_its_time(kept: Kept) -> None:
    kept.look(5)
    since = kept.time()
    kept.file.unlink()
    kept.file.mkdir()
    kept.cluster.look(3)
    kept.usage.close()
    assert kept.told() == [f"what the cluster did since {since} could not be written, and is not kept"]


def test_a_sum_that_is_no_number_any_more_costs_nobody_else_the_report(tmp_path: pathlib.Path) -> None:
    columns = "busy, idle, empty, unknown, free, filled"
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        database.execute(f"CREATE TABLE usage (begin, kind, name, {columns})")
        database.execute("INSERT INTO usage VALUES (7200, 'user', 'ada', NULL, x'ff', 'x', NULL, 0.0, 0.0)")
        database.execute("INSERT INTO usage VALUES (7200, 'user', 'bob', 1.0, 2.0, 0.0, 0.0, 0.0, 0.0)")
    rows = {row.name: row.held_s for row in read_usage(str(tmp_path), "user", 0, 9000)}
    assert rows == {"ada": 0, "bob": 3}
