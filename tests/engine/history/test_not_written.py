"""What waits until history can be written again is written; of what is lost it is said from when to when."""

import math
import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
from fallow.engine.history.sqlite_file import clock_time
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, status
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.more

MANY = 64
KINDS = (Activity.BUSY, Activity.IDLE)


def watch(history: HistoryWriter, seconds: range, gpus: int = 1) -> None:
    """All GPUs do something else at each tick."""
    for second in seconds:
        kind = KINDS[second % 2]
        history.record(status(START_S + second, *(gpu_status(index, kind, holder()) for index in range(gpus))))
        history.settle(LIMIT_S)


def refuse(folder: pathlib.Path, name: str = "history.db") -> None:
    (folder / name).rename(folder / "away")
    (folder / name).mkdir()


def allow(folder: pathlib.Path) -> None:
    (folder / "history.db").rmdir()
    (folder / "away").rename(folder / "history.db")


def witnessed_s(folder: pathlib.Path) -> float:
    opened = past(folder)
    begin_ms = round(START_S * 1000)
    found = opened.tallies([begin_ms, begin_ms + 900_000])
    opened.close()
    return sum(one.witnessed_ms for one in found) / 1000


def test_a_daemon_that_ends_while_nothing_can_be_written_says_since_when_history_ends(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    history = HistoryWriter(str(tmp_path), told.append)
    watch(history, range(21))
    refuse(tmp_path)
    watch(history, range(21, 40))
    assert len(told) == 1
    history.close()
    assert told[1:] == [f"what was seen since {clock_time(START_S + 20)} could not be written, and is not in history"]
    allow(tmp_path)
    assert witnessed_s(tmp_path) == 20


def test_of_intervals_that_are_too_many_to_wait_it_is_said_from_when_to_when_they_are_lost(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    history = HistoryWriter(str(tmp_path), told.append)
    watch(history, range(21), MANY)
    refuse(tmp_path)
    watch(history, range(21, 400), MANY)
    allow(tmp_path)
    watch(history, range(400, 420), MANY)
    history.close()
    (lost,) = (sentence for sentence in told if "lacks" in sentence)
    # A batch waited until the 24th second, and of the seconds up to the 403rd the last 20,000 intervals.
    gone_s = MANY * (403 - 24) - 20_000
    assert witnessed_s(tmp_path) == MANY * 419 - gone_s
    first, end = START_S + 24, START_S + 24 + math.ceil(gone_s / MANY)
    assert f"between {clock_time(first)} and {clock_time(end)}" in lost


def test_rows_that_wait_are_written_as_soon_as_they_can_be_though_no_other_row_comes(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    journal.action("job", "ask", said("1"), ["gpu:1"])
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        journal.action("job", "ask", said("2"), ["gpu:1"])
        for _ in range(8):
            journal.turn()
        assert len(told) == 1
    for _ in range(8):
        journal.turn()
    assert [event.because for event in journal_file.read(str(tmp_path), "gpu:1", 9)] == ["2", "1"]
    assert told[1:] == ["the journal is written again"]
    journal.close()
