"""Watching tells what no single look can."""

import itertools
import pathlib

from fallow.core.activity import Activity
from fallow.core.gpu import Counters, Gpu, Recent
from fallow.core.seen import Sight
from fallow.engine.watching import look_once, watch
from fallow.engine.world import World
from tests.core.gpus import held
from tests.engine.driven import DrivenClock
from tests.engine.test_guarding import ScriptedEyes

QUIET_BUS = {"pcie_rx_bytes_per_s": 0.0, "pcie_tx_bytes_per_s": 0.0}


def rests() -> Gpu:
    return held(power_w=128.0, power_limit_w=700.0, counters=Counters(0.0, 0.0, 0.0, 0.0), **QUIET_BUS)


def hangs() -> Gpu:
    full = Recent(1.0, 1.0, 1.0)
    spins = Counters(0.999, 0.016, 0.0, 0.0)
    return held(utilization=1.0, recent=full, power_w=140.0, power_limit_w=700.0, counters=spins, **QUIET_BUS)


def works() -> Gpu:
    full = Recent(1.0, 1.0, 1.0)
    return held(utilization=1.0, recent=full, power_w=691.0, counters=Counters(0.96, 0.14, 0.94, 0.16), **QUIET_BUS)


def world_of(gpus: list[Gpu], folder: pathlib.Path) -> World:
    """Rests for ten seconds, then does what it does."""
    clock = DrivenClock()
    world = World({"FALLOW_CLAIM_DIR": str(folder / "claims")}, clock=clock)
    world.eyes = ScriptedEyes(clock, lambda passed_s: [rests()] if passed_s < 10 else gpus, 1e9)
    return world


def activities(sights: list[Sight]) -> list[Activity]:
    return [sight.gpus[0].activity for sight in sights]


def test_a_card_that_hangs_for_a_minute_is_stuck(tmp_path: pathlib.Path) -> None:
    seen = activities(list(itertools.islice(watch(world_of([hangs()], tmp_path), 1.0), 100)))
    assert seen[:10] == [Activity.FALLOW] * 10
    assert set(seen[10:60]) == {Activity.BUSY}
    assert set(seen[72:]) == {Activity.STUCK}


def test_a_card_that_works_flat_out_is_never_stuck(tmp_path: pathlib.Path) -> None:
    seen = activities(list(itertools.islice(watch(world_of([works()], tmp_path), 1.0), 300)))
    assert set(seen[10:]) == {Activity.BUSY}


def test_one_look_calls_nothing_stuck_and_witnesses_no_time(tmp_path: pathlib.Path) -> None:
    clock = DrivenClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.eyes = ScriptedEyes(clock, lambda _: [hangs()], 1e9)
    gpu = look_once(world).gpus[0]
    assert (gpu.activity, gpu.for_s) == (Activity.BUSY, None)


def test_witnessed_time_grows_while_nothing_changes_and_starts_anew_when_it_does(tmp_path: pathlib.Path) -> None:
    sights = list(itertools.islice(watch(world_of([works()], tmp_path), 1.0), 20))
    assert [sight.gpus[0].for_s for sight in sights[:3]] == [0.0, 1.0, 2.0]
    assert sights[10].gpus[0].for_s == 0.0
    assert sights[19].gpus[0].for_s == 9.0
