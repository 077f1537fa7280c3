"""What plots show: equal steps, the means of what was read, whose time it was, and gaps where nobody looked."""

import itertools
from collections.abc import Iterable, Iterator

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Party
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.reader import HistoryReader, open_history
from fallow.engine.history.series import SPANS, Step, steps_of
from tests.engine.history.life import gpu_status, holder, record, status

START = 1_790_002_800  # an hour begins here
HOUR = SPANS["1h"]
PRICES = Prices(3.0, (), "USD")
GPUS = tuple(str(gpu_status(index, Activity.BUSY).uuid) for index in range(2))


def gpu(index: int, activity: Activity, load: float, **changes: object) -> GpuStatus:
    user = ("ada", "bob")[index]
    made = gpu_status(index, activity, holder(user=user), load=load, power_w=200.0 + 100 * index)
    return replace(made, recent=Unknown("one look"), **changes)


def ticks() -> Iterable[Status]:
    """10 minutes; then nobody looks for 10; then 10 more, in which GPU 1 says nothing about its power."""
    for second in range(600):
        yield status(START + second, gpu(0, Activity.BUSY, 1.0), gpu(1, Activity.IDLE, 0.0))
    for second in range(1200, 1800):
        yield status(
            START + second, gpu(0, Activity.IDLE, 0.0), gpu(1, Activity.BUSY, 0.5, power_w=Unknown("no sensor"))
        )


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryReader]:
    folder = tmp_path_factory.mktemp("plotted")
    record(folder, ticks())
    opened = open_history(str(folder))
    assert opened is not None
    yield opened
    opened.close()


def at(steps: tuple[Step, ...], second: int) -> Step:
    return next(one for one in steps if one.begin_ms == (START + second) * 1000)


def steps(past: HistoryReader, uuids: Iterable[str] = GPUS, **more: object) -> tuple[Step, ...]:
    return steps_of(past, uuids, (START + 1800) * 1000, HOUR, PRICES, **more)  # type: ignore[arg-type]


def test_a_step_has_the_means_the_time_the_cost_and_the_users_of_all_gpus(past: HistoryReader) -> None:
    found = steps(past)
    assert len(found) == HOUR.seconds // HOUR.step_s
    assert all(later.begin_ms - one.begin_ms == 30_000 for one, later in itertools.pairwise(found))
    one = at(found, 300)
    assert (one.gpus, one.utilization, one.power_w) == (2, 0.5, 250.0)
    assert one.spent_ms == {Activity.BUSY: 30_000, Activity.IDLE: 30_000}
    assert one.cost == pytest.approx(3.0 / 120), "only the idle half minute"
    assert set(one.users) == {"ada", "bob"}


def test_where_nobody_looked_there_is_nothing_and_no_zero(past: HistoryReader) -> None:
    one = at(steps(past), 900)
    assert (one.gpus, one.utilization, one.memory_bytes, one.power_w, one.temperature_c) == (0, *[None] * 4)
    assert (one.spent_ms, one.cost, one.users) == ({}, None, ())


def test_a_reading_that_is_missing_of_one_gpu_is_the_mean_of_the_others(past: HistoryReader) -> None:
    assert at(steps(past), 1500).power_w == 200.0
    assert at(steps(past, GPUS[1:]), 1500).power_w is None


def test_of_a_user_only_what_they_held_counts(past: HistoryReader) -> None:
    found = steps(past, matches=lambda party: party.user == "bob")
    assert (at(found, 300).gpus, at(found, 300).utilization) == (1, 0.0)
    assert at(found, 300).users == ("bob",)
    nobody = steps(past, matches=lambda party: party == Party("erin", "python"))
    assert all((one.gpus, one.utilization, one.spent_ms) == (0, None, {}) for one in nobody)


def test_a_gpu_without_a_price_makes_the_cost_unknown_and_not_zero(past: HistoryReader) -> None:
    found = steps_of(past, GPUS, (START + 1800) * 1000, HOUR, Prices())
    assert at(found, 300).cost is None


def test_without_history_there_are_empty_steps() -> None:
    empty = steps_of(None, GPUS, START * 1000, HOUR, PRICES)
    assert len(empty) == 120
    assert not any(one.spent_ms for one in empty)


def test_a_step_tells_how_much_of_it_was_watched(past: HistoryReader) -> None:
    half = steps_of(past, GPUS, (START + 1800) * 1000, SPANS["24h"], PRICES)
    assert [one.watched_ms // 1000 for one in half if one.watched_ms] == [599, 599]
    whole = steps_of(past, GPUS, (START + 1800) * 1000, SPANS["7d"], PRICES)
    assert [round(one.watched_ms / 1000) for one in whole if one.watched_ms] == [1198], "of an hour"
