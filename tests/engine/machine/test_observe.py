"""Watching tells what no single look can."""

import itertools
import pathlib
from collections.abc import Callable, Iterable

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu import NEEDS_TWO_LOOKS, Counters, Gpu, Holder, Recent
from fallow.core.gpu_status import GpuStatus
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


def world_of(gpu: Callable[[float], Gpu], folder: pathlib.Path) -> World:
    """A machine with one GPU, which is so after so many seconds."""
    clock = ManualClock()
    world = World({"FALLOW_CLAIM_DIR": str(folder / "claims")}, clock=clock)
    world.gpu_reader = ScriptedReader(clock, lambda passed_s: [gpu(passed_s)])
    return world


def watched(gpu: Callable[[float], Gpu], folder: pathlib.Path, looks: int) -> list[GpuStatus]:
    """The GPU at each look, one a second."""
    return [status.gpus[0] for status in itertools.islice(watch(world_of(gpu, folder), 1.0), looks)]


def activities(seen: Iterable[GpuStatus]) -> list[Activity]:
    return [gpu.activity for gpu in seen]


def test_a_card_that_hangs_for_a_minute_is_stuck(tmp_path: pathlib.Path) -> None:
    seen = activities(watched(lambda passed_s: rests() if passed_s < 10 else hangs(), tmp_path, 100))
    assert seen[:10] == [Activity.IDLE] * 10
    assert set(seen[10:60]) == {Activity.BUSY}
    assert set(seen[72:]) == {Activity.STUCK}


def test_witnessed_time_grows_while_nothing_changes_and_work_flat_out_is_never_stuck(tmp_path: pathlib.Path) -> None:
    seen = watched(lambda passed_s: rests() if passed_s < 10 else works(), tmp_path, 300)
    assert set(activities(seen[10:])) == {Activity.BUSY}
    assert [gpu.for_s for gpu in seen[:3]] == [0.0, 1.0, 2.0]
    assert (seen[10].for_s, seen[19].for_s) == (0.0, 9.0)


def test_a_job_that_works_every_third_second_is_busy_all_the_time(tmp_path: pathlib.Path) -> None:
    """F11"""
    seen = watched(lambda passed_s: works() if round(passed_s) % 3 == 0 else rests(), tmp_path, 60)
    assert set(activities(seen)) == {Activity.BUSY}
    assert seen[-1].for_s == 59.0, "and that has lasted"


def test_what_stops_is_idle_from_the_moment_it_stopped(tmp_path: pathlib.Path) -> None:
    """F11"""
    seen = watched(lambda passed_s: works() if passed_s < 10 else rests(), tmp_path, 60)
    assert set(activities(seen[:20])) == {Activity.BUSY}
    assert seen[20].reason.kind == "settling"
    assert (seen[-1].activity, seen[-1].for_s) == (Activity.IDLE, 50.0)


def shared(*pids: int) -> Gpu:
    """A card on which nothing runs, held by these processes."""
    return replace(rests(), holders=tuple(Holder(pid, 2**30, utilization=0.0) for pid in pids))


def test_who_comes_to_a_card_on_which_another_sits_idle_is_not_idle_at_once_nor_for_what_was_before(
    tmp_path: pathlib.Path,
) -> None:
    seen = watched(lambda passed_s: shared(100, 200) if passed_s >= 60 else shared(100), tmp_path, 100)
    assert activities(seen[:60]) == [Activity.IDLE] * 60
    assert seen[60].because == "pid 200 came to it just now"
    assert set(activities(seen[60:72])) == {Activity.BUSY}
    assert (seen[-1].activity, seen[-1].for_s) == (Activity.IDLE, 39.0)


def test_who_leaves_an_idle_card_makes_it_no_less_idle_and_who_comes_again_is_new(tmp_path: pathlib.Path) -> None:
    seen = watched(lambda passed_s: shared(100) if 20 <= passed_s < 60 else shared(100, 200), tmp_path, 61)
    assert activities(seen[:60]) == [Activity.IDLE] * 60
    assert seen[59].for_s == 59.0
    assert seen[60].activity is Activity.BUSY


def test_the_first_sight_of_a_hang_says_so_for_how_long_that_must_hold_and_witnesses_no_time(
    tmp_path: pathlib.Path,
) -> None:
    """F12"""
    (once,) = look_once(world_of(lambda _: hangs(), tmp_path)).gpus
    assert (once.activity, once.for_s) == (Activity.BUSY, None)
    assert once.because.startswith("looks stuck: ")
    assert "stuck if that lasts for 1m" in once.because
    seen = watched(lambda _: hangs(), tmp_path, 70)
    assert {gpu.because.startswith("looks stuck: ") for gpu in seen[:60]} == {True}
    assert seen[-1].activity is Activity.STUCK


@pytest.mark.parametrize(("then", "is_stuck"), [(hangs, True), (works, False)])
def test_one_look_at_what_seems_full_and_draws_little_waits_for_the_counters(
    tmp_path: pathlib.Path, then: Callable[[], Gpu], is_stuck: bool
) -> None:
    """F12: counters need two looks, so where they would tell a hang from work, `status` takes the second."""
    first = replace(hangs(), counters=NEEDS_TWO_LOOKS, recent=Recent(14.0, 0.4, 1.0))
    (once,) = look_once(world_of(lambda passed_s: first if passed_s == 0 else then(), tmp_path)).gpus
    assert once.because.startswith("looks stuck: ") is is_stuck


def test_a_card_that_was_given_back_does_not_hang_for_the_next_who_comes(tmp_path: pathlib.Path) -> None:
    seen = watched(lambda passed_s: idle() if 50 <= passed_s < 55 else hangs(), tmp_path, 100)
    assert Activity.STUCK not in activities(seen), "50 seconds of one job and 45 of another"
