"""Others write to the file while it is used: what is gone is said, and nobody gets another's hours."""

import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
from fallow.engine.history.sqlite_file import clock_time
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, status
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.more


def test_rows_of_the_journal_that_an_older_copy_lacks_are_said_to_be_gone(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    file, now = tmp_path / "journal.db", iter(range(100, 200))
    journal = Journal(str(tmp_path), lambda: float(next(now)), told.append)
    journal.action("job", "ask", said("1"), ["gpu:1"])
    older = file.read_bytes()
    journal.action("job", "ask", said("2"), ["gpu:1"])
    journal.action("job", "ask", said("3"), ["gpu:1"])
    file.write_bytes(older)
    journal.action("job", "ask", said("4"), ["gpu:1"])
    assert [event.because for event in journal.last("gpu:1")] == ["4", "1"]
    gone = f"rows from between {clock_time(100)} and {clock_time(104)} are gone"
    assert told == [f"the journal was replaced by an older copy: {gone}"]
    journal.close()


def test_rows_of_another_process_and_rows_that_it_cleared_away_are_no_older_copy(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    journal.action("job", "ask", said("ours"), ["gpu:1"])
    other = Journal(str(tmp_path), lambda: 2.0, told.append, most_rows=4)
    for number in range(9):
        other.action("job", "ask", said(str(number)), ["gpu:1"])
    other.close()
    assert [event.because for event in journal.last("gpu:1")] == ["8", "7", "6", "5"]
    journal.action("job", "ask", said("ours"), ["gpu:1"])
    journal.close()
    assert told == []


def test_after_an_older_copy_of_history_each_user_and_gpu_has_its_own_hours(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    file = tmp_path / "history.db"
    history = HistoryWriter(str(tmp_path), told.append)

    def watch(seconds: range, user: str, gpus: int) -> None:
        for second in seconds:
            tick = (gpu_status(index, Activity.IDLE, holder(user=user)) for index in range(gpus))
            history.record(status(START_S + second, *tick))
            assert history.settle(LIMIT_S)

    watch(range(40), "ada", 1)
    older = file.read_bytes()
    watch(range(40, 80), "bob", 2)
    file.write_bytes(older)
    watch(range(80, 120), "carol", 1)
    watch(range(120, 160), "bob", 2)
    history.close()
    (sentence,) = told
    assert sentence.startswith("history was replaced by an older copy: what was written between ")
    assert f"between {clock_time(START_S + 36)} and " in sentence
    with closing(sqlite3.connect(file)) as database:
        found = database.execute(
            "SELECT label, (begin - ?) / 1000, holders FROM interval JOIN card ON card.id = card"
            " JOIN crew ON crew.id = crew ORDER BY begin, label",
            (START_S * 1000,),
        ).fetchall()
    assert [(label, begin, text[3:6]) for label, begin, text in found] == [
        *[("0", 0, "ada"), ("0", 39, "bob"), ("1", 40, "bob")],
        *[("0", 79, "car"), ("0", 119, "bob"), ("1", 120, "bob")],
    ]


def test_another_program_that_has_a_log_written_beside_the_file_costs_no_row_when_that_is_removed(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    history = HistoryWriter(str(tmp_path), told.append)
    for second in range(20):
        if second == 10:
            for name in ("history.db", "journal.db"):
                with closing(sqlite3.connect(tmp_path / name)) as other:
                    assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        history.record(status(START_S + second, gpu_status(0, Activity.IDLE, holder())))
        assert history.settle(LIMIT_S)
        journal.action("job", "ask", said(str(second)), ["gpu:1"])
    for file in tmp_path.glob("*-[ws]*"):
        file.unlink()
    assert len(journal_file.read(str(tmp_path), "gpu:1", 100)) == 20
    with closing(sqlite3.connect(tmp_path / "history.db")) as database:
        assert database.execute("SELECT sum(witnessed) FROM interval").fetchone() == (16_000,)
    history.close()
    journal.close()
    assert told == []


def test_rows_that_were_merged_and_a_file_that_was_packed_by_others_are_no_older_copy(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    history = HistoryWriter(str(tmp_path), told.append)
    for second in range(20):  # the last row is merged with an earlier one
        kind = (Activity.IDLE, Activity.BUSY)[second // 5 % 2]
        history.record(status(START_S + second, gpu_status(0, kind, holder())))
        assert history.settle(LIMIT_S)
    for later_s in (3 * 86400, 3 * 86400 + 60):  # and no GPU is there any more
        history.record(status(START_S + later_s))
        assert history.settle(LIMIT_S)
        with closing(sqlite3.connect(tmp_path / "history.db", isolation_level=None)) as other:
            assert other.execute("SELECT count(*) FROM interval").fetchone() == (2,)
            other.execute("VACUUM")
    history.record(status(START_S + 3 * 86400 + 120, gpu_status(0, Activity.IDLE, holder())))
    history.close()
    assert told == []


def test_an_interval_that_grows_in_a_copy_which_is_put_in_the_place_of_the_file_is_not_counted_twice(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    file, copy = tmp_path / "history.db", tmp_path / "copy"
    history = HistoryWriter(str(tmp_path), told.append)
    for second in range(41):
        if second == 21:
            copy.write_bytes(file.read_bytes())
            copy.replace(file)
        history.record(status(START_S + second, gpu_status(0, Activity.IDLE, holder())))
        assert history.settle(LIMIT_S)
    history.close()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*), sum(witnessed) FROM interval").fetchone() == (1, 40_000)
    assert told == []


def test_an_older_journal_in_the_place_of_the_file_is_said_also_by_who_has_written_no_row(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    file, older = tmp_path / "journal.db", tmp_path / "older"
    for number in (1, 2):
        journal = Journal(str(tmp_path), lambda: 1.0, told.append)
        journal.action("job", "ask", said(str(number)), ["gpu:1"])
        journal.close()
        if number == 1:
            older.write_bytes(file.read_bytes())
    journal = Journal(str(tmp_path), lambda: 60.0, told.append)
    older.replace(file)
    assert [event.because for event in journal.last("gpu:1")] == ["1"]
    journal.close()
    gone = f"rows from between {clock_time(1)} and {clock_time(60)} are gone"
    assert told == [f"the journal was replaced by an older copy: {gone}"]


def test_a_new_journal_that_another_process_has_begun_is_no_older_copy_but_all_is_gone(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    for number in range(3):
        journal.action("job", "ask", said(str(number)), ["gpu:1"])
    (tmp_path / "journal.db").unlink()
    other = Journal(str(tmp_path), lambda: 50.0, told.append)
    other.action("job", "ask", said("new"), ["gpu:1"])
    other.close()
    assert [event.because for event in journal.last("gpu:1")] == ["new"]
    journal.close()
    assert told == [f"the journal was taken away: rows from before {clock_time(1)} are gone, and a new one begins"]
