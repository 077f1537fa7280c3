"""History is kept as it is seen, read while it is written, and outlives whoever wrote it."""

import os
import pathlib
import sqlite3

import pytest

from fallow.core.activity import Activity
from fallow.core.errors import NotPermitted
from fallow.core.gpu_status import Status
from fallow.core.interval import Card, Interval, Party
from fallow.engine.history.reader import open_history
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, record, status
from tests.places import LIMIT_S

START_MS = round(START_S * 1000)
ADA = (Party("ada", "python train.py"),)
UUID = str(gpu_status(0, Activity.FREE).uuid)


def ticks(activity: Activity, begin: int, end: int) -> list[Status]:
    holders = () if activity is Activity.FREE else (holder(),)
    return [status(START_S + second, gpu_status(0, activity, *holders)) for second in range(begin, end)]


def strip(folder: pathlib.Path, until_s: int = 100_000) -> list[tuple[float, float, Activity]]:
    opened = past(folder)
    found = opened.strip(UUID, START_MS, START_MS + until_s * 1000)
    opened.close()
    return [((one.begin_ms - START_MS) / 1000, (one.end_ms - START_MS) / 1000, one.activity) for one in found]


def test_what_was_seen_is_there_in_order(tmp_path: pathlib.Path) -> None:
    record(tmp_path, [*ticks(Activity.BUSY, 0, 1000), *ticks(Activity.IDLE, 1000, 3000)])
    assert strip(tmp_path) == [(0, 999, Activity.BUSY), (999, 2999, Activity.IDLE)]
    opened = past(tmp_path)
    assert opened.cards() == {UUID: Card(UUID, "0", "NVIDIA H100 80GB HBM3", "box")}
    assert opened.tallies([START_MS, START_MS + 10**7]) == [
        Interval(UUID, START_MS, START_MS + 10**7, 999_000, Activity.BUSY, ADA, 999_000 * 120, 999_000),
        Interval(UUID, START_MS, START_MS + 10**7, 2_000_000, Activity.IDLE, ADA, 2_000_000 * 120, 2_000_000),
    ]
    opened.close()


def test_a_span_gets_exactly_the_part_inside_it(tmp_path: pathlib.Path) -> None:
    record(tmp_path, ticks(Activity.BUSY, 0, 2000))
    opened = past(tmp_path)
    for begin, end in ((0, 1), (100, 101), (899, 901), (5, 1995), (1990, 5000), (-50, 3)):
        tallies = opened.tallies([START_MS + begin * 1000, START_MS + end * 1000])
        assert sum(one.witnessed_ms for one in tallies) == (min(end, 1999) - max(begin, 0)) * 1000
        strips = opened.strip(UUID, START_MS + begin * 1000, START_MS + end * 1000)
        assert sum(one.witnessed_ms for one in strips) == (min(end, 1999) - max(begin, 0)) * 1000
    assert opened.tallies([START_MS + 3_000_000, START_MS + 4_000_000]) == []
    opened.close()


def test_a_restart_never_bridges(tmp_path: pathlib.Path) -> None:
    record(tmp_path, ticks(Activity.BUSY, 0, 11))
    record(tmp_path, ticks(Activity.BUSY, 11, 21))
    assert strip(tmp_path) == [(0, 10, Activity.BUSY), (11, 20, Activity.BUSY)]


def test_where_nobody_wrote_there_is_no_past(tmp_path: pathlib.Path) -> None:
    assert open_history(str(tmp_path / "nowhere")) is None
    sqlite3.connect(tmp_path / "history.db").close()
    assert open_history(str(tmp_path)) is None


def test_the_file_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    record(tmp_path / "state", ticks(Activity.BUSY, 0, 10))
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "history.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.as_root
def test_others_are_told_that_they_may_not_read_it(open_folder: pathlib.Path) -> None:
    record(open_folder / "state", ticks(Activity.BUSY, 0, 10))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setresuid(12345, 12345, 12345)
            with pytest.raises(NotPermitted):
                open_history(str(open_folder / "state"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_folder_that_cannot_be_made_is_told_once_and_stops_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    told: list[str] = []
    history = HistoryWriter(str(tmp_path / "file"), told.append)
    for one in ticks(Activity.BUSY, 0, 30):
        history.record(one)
        history.settle(LIMIT_S)
    (tmp_path / "file").unlink()
    for one in ticks(Activity.BUSY, 30, 130):
        history.record(one)
        history.settle(LIMIT_S)
    history.close()
    assert len(told) == 2
    assert "history is not kept" in told[0]
    assert told[1] == "history is kept again"
    assert strip(tmp_path / "file") == [(0, 129, Activity.BUSY)], "what waited in memory is written as well"
