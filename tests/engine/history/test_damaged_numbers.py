"""A number that a disk has changed costs what it held: no report, no plot, no other row, and history gets coarser."""

import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.core.money import Prices
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.series import SPANS, steps_of
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, status
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

START_MS = round(START_S * 1000)
DAY_S = 86_400
NO_NUMBERS = ["'x'", "9223372036854775807", "-9223372036854775808"]
VALUES = ["span", "witnessed", "energy", "metered"]
MARKS = ["clock", "coarse_until", "crews_cleared", "leapt", "rolled_until"]


def watch(folder: pathlib.Path, told: list[str], first: int) -> None:
    """Ten seconds of two GPUs, of which each does two things."""
    history = HistoryWriter(str(folder), told.append)
    for second in range(first, first + 11):
        kind = (Activity.IDLE, Activity.BUSY)[(second - first) // 5 % 2]
        gpus = (gpu_status(index, kind, holder(user=("ada", "bob")[index])) for index in range(2))
        history.record(status(START_S + second, *gpus))
        assert history.settle(LIMIT_S)
    history.close()


def change(folder: pathlib.Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "history.db", isolation_level=None)) as database:
        database.execute(statement)


def milliseconds(folder: pathlib.Path) -> dict[str, int]:
    """How long each user's GPU was witnessed; every other question is answered, too."""
    opened = past(folder)
    found: dict[str, int] = {}
    for one in opened.tallies([START_MS, START_MS + 9 * DAY_S * 1000]):
        found[one.parties[0].user] = found.get(one.parties[0].user, 0) + one.witnessed_ms
    ask_all(opened)
    opened.close()
    return found


def ask_all(opened: HistoryReader) -> None:
    end_ms = START_MS + DAY_S * 1000
    opened.quarters(START_MS, START_MS + 3500)
    for uuid in opened.cards():
        opened.strip(uuid, START_MS, end_ms)
        opened.colours(uuid, START_MS, end_ms, 1000)
        opened.spent(uuid, START_MS, end_ms, 60_000)
        opened.samples(uuid, START_MS // 1000, end_ms // 1000, 300)
    for span in SPANS.values():
        steps_of(opened, opened.cards(), end_ms, span, Prices(2.0))


@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize("column", VALUES)
def test_a_number_that_is_none_any_more_costs_nobody_else_the_report(
    tmp_path: pathlib.Path, column: str, number: str
) -> None:
    told: list[str] = []
    watch(tmp_path, told, 0)
    change(tmp_path, f"UPDATE interval SET {column} = {number} WHERE card = 1")
    assert milliseconds(tmp_path)["bob"] == 10_000
    watch(tmp_path, told, 2 * DAY_S)  # now it is old enough to be merged
    watch(tmp_path, told, 2 * DAY_S + 60)
    found = milliseconds(tmp_path)
    assert found["bob"] == 30_000
    assert 20_000 <= found["ada"] <= 30_000
    assert all("they count as nothing from now on" in sentence for sentence in told)
    assert len(told) <= 1
    with closing(sqlite3.connect(tmp_path / "history.db")) as database:
        coarse = "SELECT count(*) FROM interval WHERE begin < ?"
        assert database.execute(coarse, (START_MS + DAY_S * 1000,)).fetchone()[0] <= 4, "and it has become coarser"


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_a_row_whose_time_is_damaged_keeps_no_other_from_getting_coarser(tmp_path: pathlib.Path, number: str) -> None:
    told: list[str] = []
    watch(tmp_path, told, 0)
    change(
        tmp_path,
        f"UPDATE interval SET begin = {number} WHERE card = 1 AND activity = 'idle' AND begin < {START_MS + 4000}",
    )
    assert milliseconds(tmp_path)["bob"] == 10_000
    for second in (2 * DAY_S, 2 * DAY_S + 60, 2 * DAY_S + 3700):
        watch(tmp_path, told, second)
    found = milliseconds(tmp_path)
    assert (found["bob"], 30_000 <= found["ada"] <= 40_000) == (40_000, True)
    assert len(told) <= 1


@pytest.mark.parametrize("number", [*NO_NUMBERS, "0"])
@pytest.mark.parametrize("name", MARKS)
def test_a_mark_that_was_damaged_costs_nothing(tmp_path: pathlib.Path, name: str, number: str) -> None:
    told: list[str] = []
    for second in (0, DAY_S, 2 * DAY_S):
        watch(tmp_path, told, second)
    change(tmp_path, f"UPDATE mark SET at = {number} WHERE name = '{name}'")
    for second in (3 * DAY_S, 3 * DAY_S + 60):
        watch(tmp_path, told, second)
    assert milliseconds(tmp_path) == {"ada": 50_000, "bob": 50_000}
    assert all("they count as nothing from now on" in sentence for sentence in told)
    with closing(sqlite3.connect(tmp_path / "history.db")) as database:
        sums = database.execute("SELECT sum(witnessed) FROM rollup WHERE step = 3600000").fetchone()
    assert sums == (60_000,), "the sums of all that is long over are right again"


def test_hours_whose_holders_are_gone_stay_when_they_are_merged(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    watch(tmp_path, told, 0)
    change(tmp_path, "DELETE FROM crew WHERE holders LIKE '%ada%'")
    assert milliseconds(tmp_path) == {"?": 10_000, "bob": 10_000}
    watch(tmp_path, told, 2 * DAY_S)
    assert milliseconds(tmp_path) == {"?": 10_000, "ada": 10_000, "bob": 20_000}
    assert told == []
