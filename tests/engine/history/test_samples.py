"""Readings over time: their means, for pictures; what was not read is in no mean."""

import pathlib

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.retention import age
from fallow.engine.history.samples import SAMPLE_S
from tests.engine.history.life import gpu_status, holder, opened_store, past, record, status

START = 1_790_002_800  # an hour begins here
HOUR_S = 3600
UUID = str(gpu_status(0, Activity.BUSY).uuid)
FOR_EVER_MS = 10**15


def busy(load: float = 0.5, **changes: object) -> GpuStatus:
    gpu = replace(gpu_status(0, Activity.BUSY, holder(), load=load, power_w=300.0), **changes)
    return replace(gpu, recent=Unknown("one look"))


def test_samples_are_the_means_of_what_was_read_and_a_missing_reading_is_none(tmp_path: pathlib.Path) -> None:
    def at(second: int) -> Status:
        gpu = busy((second % 10) / 10)
        return status(START + second, gpu if second < SAMPLE_S else replace(gpu, power_w=Unknown("no sensor")))

    record(tmp_path, map(at, range(2 * SAMPLE_S)))
    opened = past(tmp_path)
    first, second = opened.samples(UUID, START, START + 60, SAMPLE_S)
    both = opened.samples(UUID, START, START + 60, 300)
    opened.close()
    assert (first.at_s, first.power_w, first.temperature_c) == (START, 300.0, 30.0)
    assert first.memory_bytes == busy().memory.used_bytes  # type: ignore[union-attr]
    assert first.utilization == second.utilization == pytest.approx(0.45)
    assert second.power_w is None, "no zero"
    assert [one.power_w for one in both] == [300.0], "the mean of what was read"


def test_samples_get_coarser_with_age_and_their_means_stay(tmp_path: pathlib.Path) -> None:
    loads = [0.2, 0.4, 0.9]
    record(
        tmp_path,
        (
            status(START + at, busy(loads[at // 10 % 3], power_w=100.0 + at // 3600))
            for at in range(0, 2 * HOUR_S, 10)
        ),
    )
    numbers: list[int] = []
    for hours in (0, 12, 72):
        with opened_store(tmp_path) as store:
            age(store, (START + hours * HOUR_S + 2 * HOUR_S) * 1000, FOR_EVER_MS)
            (number,) = store.database.execute("SELECT count(*) FROM sample").fetchone()
        numbers.append(number)
        opened = past(tmp_path)
        found = opened.samples(UUID, START, START + 3 * HOUR_S, HOUR_S)
        opened.close()
        assert [one.utilization for one in found] == pytest.approx([0.5] * len(found), abs=0.01)
        assert found[0].power_w == 100.0
    assert numbers == [240, 24, 2], "every 30 s, every 5 minutes, every hour"


def test_samples_that_are_too_old_go(tmp_path: pathlib.Path) -> None:
    record(tmp_path, [status(START + hour * HOUR_S + second, busy()) for hour in (0, 20, 40) for second in (0, 1)])
    with opened_store(tmp_path) as store:
        age(store, (START + 40 * HOUR_S + 2) * 1000, 24 * HOUR_S * 1000)
    opened = past(tmp_path)
    found = opened.samples(UUID, START, START + 48 * HOUR_S, HOUR_S)
    opened.close()
    assert [(one.at_s - START) // HOUR_S for one in found] == [20, 40]


def test_what_was_spent_is_all_there_when_short_intervals_are_merged(tmp_path: pathlib.Path) -> None:
    """An activity a second: a picture of an hour needs one row for each step, activity and user."""
    gpus = [gpu_status(0, kind, holder()) for kind in (Activity.BUSY, Activity.IDLE)]
    record(tmp_path, (status(START + second, gpus[second % 2]) for second in range(601)))
    opened = past(tmp_path)
    found = opened.spent(UUID, START * 1000, (START + 600) * 1000, 300_000)
    opened.close()
    assert len(found) <= 6
    assert sum(one.witnessed_ms for one in found) == 600_000
    assert {party.user for one in found for party in one.parties} == {"ada"}
