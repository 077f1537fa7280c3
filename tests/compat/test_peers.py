"""gpu-sentinel 0.1.4 and gpuselect 0.1.4 as published, beside ours: both agree; where theirs crash, ours do not."""

import math
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.asked import Asked
from tests.conftest import Fallow
from tests.length import examples
from tests.places import BIN
from tests.standin import Process, World

pytestmark = pytest.mark.more

PEERS = BIN.parent / "peers"
GIB, MIB = 2**30, 2**20
NAMES = ("NVIDIA H100 80GB HBM3", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090")


@pytest.fixture
def theirs_and_ours(fallow: Fallow, tmp_path: pathlib.Path) -> Iterator[Callable[[], tuple[Asked, Asked]]]:
    """Both, in the world that the test has made."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f'#!/bin/sh\nexec {sys.executable} {pathlib.Path(__file__).parent / "nvidia_smi.py"} "$@"\n')
    smi.chmod(0o755)
    fallow.environ["PATH"] = f"{smi.parent}:{fallow.environ['PATH']}"
    started: list[Asked] = []

    def start() -> tuple[Asked, Asked]:
        environ = {**fallow.environ, "PYTHONPATH": str(PEERS), "PYTHONWARNINGS": "ignore"}
        started.append(Asked("gpuselect", "gpu_sentinel", environ))
        started.append(Asked("fallow.compat", "fallow.compat", fallow.environ))
        return started[-2], started[-1]

    yield start
    for asked in started:
        asked.leave()


def furnish(world: World, chance: random.Random) -> None:
    """Cards that do this and that, all of which both tools can read: they have fans, and hide no memory."""
    for card in world:
        card.name = chance.choice(NAMES)
        card.fan_speed = 40
        card.utilization = chance.choice((0, 0, 0, 5, 10, 60))
        card.memory_utilization = chance.choice((0, 0, 0, 3, 30))
        pids = (os.getpid(), os.getppid(), 1)[: chance.choice((0, 0, 0, 1, 2))]
        card.compute = [Process(pid, GIB) for pid in pids]
        card.memory_used = 4 * MIB + len(pids) * GIB
        card.performance_state, card.temperature_c = chance.randrange(9), chance.randrange(30, 80)
        card.power_mw = chance.randrange(80_000, 700_000)


def test_the_same_gpus_are_selected(world: World, theirs_and_ours: Callable[[], tuple[Asked, Asked]]) -> None:
    theirs, ours = theirs_and_ours()
    chance = random.Random(4)
    selected = 0
    for _ in range(25):
        furnish(world, chance)
        parameters: dict[str, object] = {
            "util": chance.choice((0, 0, 5, 10)),
            "mem_util": chance.choice((0, 0, 3)),
            "processes": chance.choice((0, 0, 1, 2)),
        }
        if chance.random() < 0.5:
            parameters["name"] = chance.choice(("A6000", "3090", "H100", "RTX"))
        for count in range(1, 10):
            mine, other = (asked(select={**parameters, "count": count}) for asked in (ours, theirs))
            assert ("is" in mine) == ("is" in other), (parameters, count)
            if "raised" in other:
                assert ours(select={**parameters, "count": count, "silent": True}) == {"is": ""}
                break
            most = set(other["is"].split(",")), set(mine["is"].split(","))
            selected += 1
        if count > 1:
            assert most[0] == most[1], "where there is no choice left, it is the same"
    assert selected > 25


def test_the_same_state_is_told(world: World, theirs_and_ours: Callable[[], tuple[Asked, Asked]]) -> None:
    theirs, ours = theirs_and_ours()
    called = {"utilization": "util", "mem_utilization": "mem_util"}
    for seed in range(5):
        furnish(world, random.Random(seed))
        other, mine = theirs(status={})["is"], ours(status={})["is"]
        for row, their_row in zip(mine, other, strict=True):
            assert row == {name: their_row[called.get(name, name)] for name in row}


@pytest.mark.parametrize("parameters", [{"count": 0}, {"devices": 8}, {"devices": 1, "name": "H100"}, {"util": -1}])
def test_the_same_parameters_are_refused(
    world: World, theirs_and_ours: Callable[[], tuple[Asked, Asked]], parameters: dict[str, object]
) -> None:
    furnish(world, random.Random(1))
    for asked in theirs_and_ours():
        assert "raised" in asked(select={**parameters, "silent": True})


def test_where_gpuselect_crashes_ours_does_not(
    world: World, theirs_and_ours: Callable[[], tuple[Asked, Asked]]
) -> None:
    theirs, ours = theirs_and_ours()
    assert theirs(select={}) == {"raised": "NVMLError_NotSupported"}, "a card without a fan"
    assert "is" in ours(select={})
    assert len(ours(status={})["is"]) == 8
    for card in world:
        card.fan_speed = 40
    assert "is" in theirs(select={})
    world.fault("*", card=2, error=15)
    assert "raised" in theirs(select={}), "a lost card"
    assert ours(select={"count": 7}) == {"is": "0,1,3,4,5,6,7"}
    world.heal()
    visible = {"CUDA_VISIBLE_DEVICES": world[5].uuid}
    assert theirs(status={}, environ=visible) == {"raised": "ValueError"}, "a UUID"
    assert [row["device"] for row in ours(status={}, environ=visible)["is"]] == [5]


def test_gpuselect_gave_one_of_two_devices_and_lost_the_exit_code(
    world: World, fallow: Fallow, theirs_and_ours: Callable[[], tuple[Asked, Asked]]
) -> None:
    for card in world:
        card.fan_speed = 40
    theirs, ours = theirs_and_ours()
    assert theirs(select={"devices": [0, 1]})["is"] in ("0", "1")
    assert ours(select={"devices": [0, 1]}) == {"is": "0,1"}, "as its document has it"
    words = ["--", "sh", "-c", "echo ran; exit 7"]
    program = "import sys; from gpuselect.nvmlgpuselect import main; main()"
    command = [sys.executable, "-c", program, *words]
    environ = {**fallow.environ, "PYTHONPATH": str(PEERS)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "ran\n" in done.stdout) == (0, True)
    mine = fallow("compat", "gpuselect", *words)
    assert (mine.returncode, mine.stdout) == (7, "ran\n")


LEVELS = st.sampled_from((0.0, 0.3, 0.69, 0.7, 0.75, 0.8, 0.81, 1.0, math.nan))
STREAMS = st.lists(st.tuples(LEVELS, st.integers(1, 6)), max_size=12).map(
    lambda stretches: [level for level, ticks in stretches for _ in range(ticks)]
)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=STREAMS, arm=st.integers(1, 6), kill=st.integers(1, 6))
def test_the_sentinels_go_through_the_same_states_and_trigger_at_the_same_tick(
    both: tuple[Asked, Asked], values: list[float], arm: int, kill: int
) -> None:
    parameters = {"arm_duration": arm, "arm_threshold": 0.8, "kill_duration": kill, "kill_threshold": 0.7}
    theirs, ours = (asked(sentinel=parameters, values=values)["is"] for asked in both)
    assert theirs == ours


@pytest.fixture
def both(world: World, theirs_and_ours: Callable[[], tuple[Asked, Asked]]) -> tuple[Asked, Asked]:
    return theirs_and_ours()


def test_the_same_usage_is_told_and_where_gpu_sentinel_crashes_ours_does_not(
    world: World, both: tuple[Asked, Asked]
) -> None:
    theirs, ours = both
    for index, card in enumerate(world):
        card.utilization = index * 10
        card.compute, card.memory_used = [Process(os.getpid(), GIB)], GIB
    for devices in (None, [0], [1, 3, 7], [2, 99]):
        assert ours(usage=devices)["is"] == pytest.approx(theirs(usage=devices)["is"]), devices
    assert theirs(usage=[]) == {"raised": "StatisticsError"}
    assert ours(usage=[])["is"] == pytest.approx(0.35), "empty is for all, as its document has it"
    assert theirs(usage=[99]) == {"raised": "StatisticsError"}
    assert math.isnan(ours(usage=[99])["is"])
    world.fault("nvmlDeviceGetUtilizationRates", card=0, error=3)
    assert math.isnan(theirs(usage=[0])["is"])
    world.fault("*", card=0, error=15)
    assert math.isnan(ours(usage=[0])["is"])
