"""History grows old: it gets coarser and smaller, and its hours stay what they were."""

import itertools
import pathlib
import sqlite3
from datetime import UTC

import pytest

from fallow.core.activity import Activity
from fallow.core.days import day_edges_ms
from fallow.core.gpu_status import Status
from fallow.core.interval import MANY_JOBS
from fallow.core.money import Prices
from fallow.engine.history.retention import age
from fallow.engine.history.writer import HistoryWriter
from fallow.policies.cost import Bill, By, bill
from tests.engine.history.life import START_S, gpu_status, holder, life, opened_store, past, record, status
from tests.places import LIMIT_S

START_MS = round(START_S * 1000)
DAY_MS = 86_400_000
FOR_EVER_MS = 10**15


def grow_old(folder: pathlib.Path, days: float, keep_ms: int = FOR_EVER_MS, **limits: int) -> None:
    folder.mkdir(exist_ok=True)
    with opened_store(folder) as store:
        age(store, START_MS + round(days * DAY_MS), keep_ms, **limits)


def bills(folder: pathlib.Path) -> dict[By, Bill]:
    opened = past(folder)
    intervals = opened.tallies(day_edges_ms(START_MS, START_MS + 4 * DAY_MS, UTC))
    cards = opened.cards()
    opened.close()
    return {by: bill(intervals, by, cards, Prices(1.0), UTC) for by in By}


def rows(folder: pathlib.Path, table: str) -> int:
    database = sqlite3.connect(folder / "history.db")
    (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    database.close()
    return int(count)


@pytest.fixture(scope="module")
def half_a_day(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """8 cards, one of which changes at every tick."""
    folder = tmp_path_factory.mktemp("half-a-day")
    record(folder, life(0.5, restless=1))
    return folder


@pytest.mark.more
def test_hours_are_the_same_before_and_after(half_a_day: pathlib.Path) -> None:
    before, many = bills(half_a_day), rows(half_a_day, "interval")
    grow_old(half_a_day, 3.0)
    after, few = bills(half_a_day), rows(half_a_day, "interval")
    assert few < many / 10
    for by in (By.GPU, By.DAY):
        assert after[by].lines == before[by].lines
    for by in (By.USER, By.JOB):
        told = {line.name: line for line in after[by].lines}
        assert told.keys() == {line.name for line in before[by].lines}
        for line in before[by].lines:
            for activity in Activity:
                assert told[line.name].ms(activity) == pytest.approx(line.ms(activity), abs=5)
    assert after[By.GPU].total == before[By.GPU].total


@pytest.mark.more
def test_a_coarse_strip_still_fills_the_time(half_a_day: pathlib.Path) -> None:
    grow_old(half_a_day, 3.0)
    opened = past(half_a_day)
    for uuid in opened.cards():
        strip = opened.strip(uuid, START_MS, START_MS + DAY_MS)
        assert all(one.end_ms <= other.begin_ms for one, other in itertools.pairwise(strip))
        assert sum(one.witnessed_ms for one in strip) == pytest.approx(DAY_MS / 2, rel=0.01)
        colours = opened.colours(uuid, START_MS, START_MS + DAY_MS, finest_ms=86_400)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(colours))
        assert sum(end_ms - begin_ms for begin_ms, end_ms, _ in colours) == sum(one.witnessed_ms for one in strip)
    opened.close()


def test_a_picture_of_a_restless_card_has_no_more_parts_than_a_screen_shows(tmp_path: pathlib.Path) -> None:
    record(tmp_path, life(0.1, cards=1, restless=1))
    opened = past(tmp_path)
    (uuid,) = opened.cards()
    colours = opened.colours(uuid, START_MS, START_MS + DAY_MS, finest_ms=86_400)
    opened.close()
    assert len(colours) <= 2 * (8640 // 86 + 1)
    spent = {kind: sum(end - begin for begin, end, what in colours if what is kind) for kind in Activity}
    assert spent[Activity.BUSY] == pytest.approx(4_320_000, abs=1000)
    assert spent[Activity.IDLE] == pytest.approx(4_320_000, abs=1000)


@pytest.mark.more
def test_a_restless_machine_is_made_coarse_before_its_day_is_over(tmp_path: pathlib.Path) -> None:
    record(tmp_path, life(0.2, cards=2, restless=2))
    before, many = bills(tmp_path), rows(tmp_path, "interval")
    grow_old(tmp_path, 0.2, most_exact=10_000)
    assert many > 30_000
    assert rows(tmp_path, "interval") < 10_500
    assert bills(tmp_path)[By.GPU] == before[By.GPU]


def test_jobs_of_seconds_are_put_together_where_there_are_many_and_stay_their_users(tmp_path: pathlib.Path) -> None:
    def at(second: int) -> Status:
        user = "ada" if second % 2 else "bob"
        return status(START_S + second, gpu_status(0, Activity.BUSY, holder(second, user, f"trial {second // 3}")))

    record(tmp_path, map(at, range(3600)))
    before = bills(tmp_path)
    grow_old(tmp_path, 2.0)
    after = bills(tmp_path)
    names = {line.name[0] for line in after[By.JOB].lines}
    assert MANY_JOBS in names
    assert len(names) <= 4 * 50 + 1
    assert after[By.USER] == before[By.USER]
    assert rows(tmp_path, "crew") <= 4 * 50 + 2


@pytest.mark.parametrize("keep_days", [2.0, 90.0])
def test_what_is_too_old_goes_and_the_rest_stays_also_after_a_reload_that_changes_what_is_too_old(
    keep_days: float, tmp_path: pathlib.Path
) -> None:
    free = gpu_status(0, Activity.FREE)
    hours = [status(START_S + hour * 3600 + second, free) for hour in range(0, 96, 6) for second in range(120)]
    told: list[str] = []
    history = HistoryWriter(str(tmp_path), told.append, keep_days=keep_days)
    for number, one in enumerate(hours):
        if number == len(hours) // 2:
            history.change(keep_days=2.0, longest_gap_s=3.0)
        history.record(one)
        if number % 1000 == 0:  # time passes faster here than a disk can follow
            assert history.settle(LIMIT_S)
    assert history.settle(LIMIT_S)
    history.close()
    assert told == []
    opened = past(tmp_path)
    strip = opened.strip(str(free.uuid), START_MS, START_MS + 5 * DAY_MS)
    opened.close()
    oldest_h = 90 - 48  # and of that one, the beginning is too old
    assert [(one.begin_ms - START_MS) // 3_600_000 for one in strip] == [h for h in range(0, 96, 6) if h > oldest_h]
    assert rows(tmp_path, "crew") == 1
