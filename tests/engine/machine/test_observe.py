"""Watching tells what no single look can."""

import itertools
import pathlib

from fallow.core.activity import Activity
from fallow.core.gpu import NEEDS_TWO_LOOKS, Counters, Gpu, Holder, Recent
from fallow.core.gpu_status import Status
from fallow.core.value import replace
from fallow.engine.machine.observe import look_once, watch
from fallow.engine.machine.world import World
from tests.core.gpus import held, idle
from tests.harness import ManualClock
from tests.scripted import ScriptedReader

QUIET_BUS = {"pcie_rx_bytes_per_s": 0.0, "pcie_tx_bytes_per_s": 0.0}


def rests() -> Gpu:
    return held(power_w=128.0, power_limit_w=700.0, counters=Counters(0.0, 0.0, 0.0, 0.0), **QUIET_BUS)


def hangs() -> Gpu:
    full = Recent(1.0, 1.0, 1.0)
    spins = Counters(0.999, 0.016, 0.0, 0.0, 0.0)
    return held(utilization=1.0, recent=full, power_w=140.0, power_limit_w=700.0, counters=spins, **QUIET_BUS)


def works() -> Gpu:
    full = Recent(1.0, 1.0, 1.0)
    return held(utilization=1.0, recent=full, power_w=691.0, counters=Counters(0.96, 0.14, 0.94, 0.16), **QUIET_BUS)


def world_of(gpus: list[Gpu], folder: pathlib.Path) -> World:
    """Rests for ten seconds, then does what it does."""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(folder / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [rests()] if passed_s < 10 else gpus)
    return world


def activities(statuses: list[Status]) -> list[Activity]:
    return [status.gpus[0].activity for status in statuses]


def test_a_card_that_hangs_for_a_minute_is_stuck(tmp_path: pathlib.Path) -> None:
    seen = activities(list(itertools.islice(watch(world_of([hangs()], tmp_path), 1.0), 100)))
    assert seen[:10] == [Activity.IDLE] * 10
    assert set(seen[10:60]) == {Activity.BUSY}
    assert set(seen[72:]) == {Activity.STUCK}


def test_a_card_that_works_flat_out_is_never_stuck(tmp_path: pathlib.Path) -> None:
    seen = activities(list(itertools.islice(watch(world_of([works()], tmp_path), 1.0), 300)))
    assert set(seen[10:]) == {Activity.BUSY}


def test_one_look_calls_nothing_stuck_and_witnesses_no_time(tmp_path: pathlib.Path) -> None:
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda _: [hangs()])
    gpu = look_once(world).gpus[0]
    assert (gpu.activity, gpu.for_s) == (Activity.BUSY, None)


def test_witnessed_time_grows_while_nothing_changes_and_starts_anew_when_it_does(tmp_path: pathlib.Path) -> None:
    statuses = list(itertools.islice(watch(world_of([works()], tmp_path), 1.0), 20))
    assert [status.gpus[0].for_s for status in statuses[:3]] == [0.0, 1.0, 2.0]
    assert statuses[10].gpus[0].for_s == 0.0
    assert statuses[19].gpus[0].for_s == 9.0


def test_a_job_that_works_every_third_second_is_busy_all_the_time(tmp_path: pathlib.Path) -> None:
    """F11"""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [works() if round(passed_s) % 3 == 0 else rests()])
    statuses = list(itertools.islice(watch(world, 1.0), 60))
    assert set(activities(statuses)) == {Activity.BUSY}
    assert statuses[-1].gpus[0].for_s == 59.0, "and that has lasted"


def test_what_stops_is_idle_from_the_moment_it_stopped(tmp_path: pathlib.Path) -> None:
    """F11"""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [works() if passed_s < 10 else rests()])
    statuses = list(itertools.islice(watch(world, 1.0), 60))
    assert set(activities(statuses[:20])) == {Activity.BUSY}
    assert statuses[20].gpus[0].reason.kind == "settling"
    assert (statuses[-1].gpus[0].activity, statuses[-1].gpus[0].for_s) == (Activity.IDLE, 50.0)


def shared(*pids: int) -> Gpu:
    """A card on which nothing runs, held by these processes."""
    return replace(rests(), holders=tuple(Holder(pid, 2**30, utilization=0.0) for pid in pids))


def test_who_comes_to_a_card_on_which_another_sits_idle_is_not_idle_at_once_nor_for_what_was_before(
    tmp_path: pathlib.Path,
) -> None:
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [shared(100, 200) if passed_s >= 60 else shared(100)])
    statuses = list(itertools.islice(watch(world, 1.0), 100))
    assert activities(statuses[:60]) == [Activity.IDLE] * 60
    assert statuses[60].gpus[0].because == "pid 200 came to it just now"
    assert set(activities(statuses[60:72])) == {Activity.BUSY}
    assert (statuses[-1].gpus[0].activity, statuses[-1].gpus[0].for_s) == (Activity.IDLE, 39.0)


def test_who_leaves_an_idle_card_makes_it_no_less_idle_and_who_comes_again_is_new(tmp_path: pathlib.Path) -> None:
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(
        clock, lambda passed_s: [shared(100) if 20 <= passed_s < 60 else shared(100, 200)]
    )
    statuses = list(itertools.islice(watch(world, 1.0), 61))
    assert activities(statuses[:60]) == [Activity.IDLE] * 60
    assert statuses[59].gpus[0].for_s == 59.0
    assert statuses[60].gpus[0].activity is Activity.BUSY


def test_the_first_sight_of_a_hang_says_so_and_for_how_long_that_must_hold(tmp_path: pathlib.Path) -> None:
    """F12"""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda _: [hangs()])
    (once,) = look_once(world).gpus
    assert once.activity is Activity.BUSY
    assert once.because.startswith("looks stuck: ")
    assert "stuck if that lasts for 1m" in once.because
    watched = [status.gpus[0] for status in itertools.islice(watch(world, 1.0), 70)]
    assert {gpu.because.startswith("looks stuck: ") for gpu in watched[:60]} == {True}
    assert watched[-1].activity is Activity.STUCK


def test_one_look_at_what_seems_full_and_draws_little_waits_for_the_counters(tmp_path: pathlib.Path) -> None:
    """F12: counters need two looks, so where they would tell a hang from work, `status` takes the second."""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    first = replace(hangs(), counters=NEEDS_TWO_LOOKS, recent=Recent(14.0, 0.4, 1.0))
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [first if passed_s == 0 else hangs()])
    assert look_once(world).gpus[0].because.startswith("looks stuck: ")
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [first if passed_s == 0 else works()])
    assert "stuck" not in look_once(world).gpus[0].because


def test_a_card_that_was_given_back_does_not_hang_for_the_next_who_comes(tmp_path: pathlib.Path) -> None:
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [idle() if 50 <= passed_s < 55 else hangs()])
    seen = activities(list(itertools.islice(watch(world, 1.0), 100)))
    assert Activity.STUCK not in seen, "50 seconds of one job and 45 of another"
