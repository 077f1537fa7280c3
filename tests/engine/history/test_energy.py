"""The energy of each interval: by the driver's counter, divided by power; unknown where the counter does not tell."""

import pathlib

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Interval
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.reader import open_history
from fallow.engine.history.retention import DAY_S, age
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, opened_store, status
from tests.places import LIMIT_S

START_MS = round(START_S * 1000)
BUSY_W, IDLE_W = 600.0, 100.0


def busy(user: str = "ada") -> GpuStatus:
    return gpu_status(0, Activity.BUSY, holder(user=user), power_w=BUSY_W)


def idle(user: str = "ada") -> GpuStatus:
    return gpu_status(0, Activity.IDLE, holder(user=user), power_w=IDLE_W)


def metered(*lasting: tuple[int, GpuStatus], begin_s: float = START_S, counter_j: float = 1e6) -> list[Status]:
    """Ticks of a GPU whose counter grows by its power, and is read once a minute."""
    ticks, told_j, second = [], counter_j, 0
    for seconds, gpu in lasting:
        for _ in range(seconds):
            if second:
                counter_j += gpu.power_w  # type: ignore[operator]  # a number here
            if second % 60 == 0:
                told_j = counter_j
            ticks.append(status(begin_s + second, replace(gpu, energy_j=told_j)))
            second += 1
    return ticks


def tallies(folder: pathlib.Path, *ticks: Status) -> dict[Activity, Interval]:
    told: list[str] = []
    history = HistoryWriter(str(folder), told.append)
    for number, one in enumerate(ticks):
        history.record(one)
        if number % 100 == 0:
            assert history.settle(LIMIT_S)
    assert history.settle(LIMIT_S)
    history.close()
    assert told == []
    opened = open_history(str(folder))
    assert opened is not None
    found = opened.tallies([START_MS - 1, START_MS + 10**8])
    opened.close()
    return {one.activity: one for one in found}


def test_an_interval_gets_what_it_drew_and_not_its_share_of_the_time(tmp_path: pathlib.Path) -> None:
    found = tallies(tmp_path, *metered((90, busy()), (151, idle())))
    told = {activity: (one.energy_mj, one.metered_ms) for activity, one in found.items()}
    # The counter is read at 0, 60, 120, ...; from its second reading on it is known since when it counts.
    assert told[Activity.BUSY] == (29 * BUSY_W * 1000, 29_000), "a tick covers the time before it"
    assert told[Activity.IDLE] == (151 * IDLE_W * 1000, 151_000)


def test_a_missing_power_divides_by_time_and_nothing_is_lost(tmp_path: pathlib.Path) -> None:
    unpowered = [
        replace(one, gpus=tuple(replace(gpu, power_w=Unknown("why")) for gpu in one.gpus))
        for one in metered((90, busy()), (31, idle()))
    ]
    found = tallies(tmp_path, *unpowered)
    assert sum(one.energy_mj for one in found.values()) == (29 * BUSY_W + 31 * IDLE_W) * 1000
    assert found[Activity.BUSY].energy_mj < 29 * BUSY_W * 1000


def test_a_counter_that_begins_again_jumps_or_vanishes_is_a_gap_and_no_number(tmp_path: pathlib.Path) -> None:
    def changed(name: str, first_s: int, energy_j: float | Unknown) -> tuple[int, int]:
        ticks = [
            one
            if one.wall_s - START_S < first_s
            else replace(one, gpus=tuple(replace(gpu, energy_j=energy_j) for gpu in one.gpus))
            for one in metered((200, busy()))
        ]
        (told,) = tallies(tmp_path / name, *ticks).values()
        return told.energy_mj, told.metered_ms

    minute = (60 * 600_000, 60_000)
    assert changed("reset", 150, 12.0) == minute
    assert changed("jump", 150, 1e12) == minute
    assert changed("vanished", 150, Unknown("lost")) == minute
    assert changed("never", 0, Unknown("not supported")) == (0, 0)


def test_what_was_drawn_while_nobody_watched_belongs_to_nobody(tmp_path: pathlib.Path) -> None:
    later = metered((600, busy()), begin_s=START_S + 400, counter_j=1e6 + 400 * BUSY_W)
    (told,) = tallies(tmp_path, *metered((150, busy())), *later).values()
    assert told.witnessed_ms == (149 + 599) * 1000
    assert told.metered_ms == (60 + 540) * 1000, "from reading to reading, on both sides of the gap"
    assert told.energy_mj == told.metered_ms * BUSY_W


def test_ageing_keeps_the_energy_of_each_user(tmp_path: pathlib.Path) -> None:
    jobs = [(70, busy(user)) if number % 2 else (40, idle(user)) for number, user in enumerate("aabbccaabbcc")]
    before = tallies(tmp_path, *metered(*jobs))
    rows = "SELECT sum(witnessed), sum(energy), sum(metered), count(*) FROM interval"
    with opened_store(tmp_path) as store:
        *first, exact = store.database.execute(rows).fetchone()
        age(store, START_MS + 2 * DAY_S * 1000, 90 * DAY_S * 1000)
        *then, coarse = store.database.execute(rows).fetchone()
    assert first == then
    assert coarse < exact
    assert sum(one.energy_mj for one in before.values()) <= first[1]
