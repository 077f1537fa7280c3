"""The energy of each interval: by the power that was read; unknown where that is."""

import pathlib

from fallow.core.activity import Activity
from fallow.core.gpu import MigPlace
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Interval
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.retention import DAY_S, age
from tests.engine.history.life import START_S, gpu_status, holder, opened_store, past, record, status

START_MS = round(START_S * 1000)
BUSY_W, IDLE_W = 600.0, 100.0


def busy(user: str = "ada") -> GpuStatus:
    return gpu_status(0, Activity.BUSY, holder(user=user), power_w=BUSY_W)


def idle(user: str = "ada") -> GpuStatus:
    return gpu_status(0, Activity.IDLE, holder(user=user), power_w=IDLE_W)


def metered(*lasting: tuple[int, GpuStatus], begin_s: float = START_S) -> list[Status]:
    """Ticks of a GPU, one a second."""
    gpus = [gpu for seconds, gpu in lasting for _ in range(seconds)]
    return [status(begin_s + second, gpu) for second, gpu in enumerate(gpus)]


def tallies(folder: pathlib.Path, *ticks: Status) -> dict[Activity, Interval]:
    record(folder, ticks)
    opened = past(folder)
    found = opened.tallies([START_MS - 1, START_MS + 10**8])
    opened.close()
    return {one.activity: one for one in found}


def test_an_interval_gets_what_it_drew_and_not_its_share_of_the_time(tmp_path: pathlib.Path) -> None:
    found = tallies(tmp_path, *metered((90, busy()), (151, idle())))
    told = {activity: (one.energy_mj, one.metered_ms) for activity, one in found.items()}
    assert told[Activity.BUSY] == (89 * BUSY_W * 1000, 89_000), "a tick covers the time before it"
    assert told[Activity.IDLE] == (151 * IDLE_W * 1000, 151_000)


def test_time_without_a_known_power_is_not_metered(tmp_path: pathlib.Path) -> None:
    unpowered = replace(busy(), power_w=Unknown("why"))
    split = replace(busy(), mig=MigPlace(0, "GPU-0", 1))
    (told,) = tallies(tmp_path, *metered((31, busy()), (30, unpowered), (30, split))).values()
    assert (told.energy_mj, told.metered_ms, told.witnessed_ms) == (30 * BUSY_W * 1000, 30_000, 90_000)


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
