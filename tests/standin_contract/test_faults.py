"""Errors, delays, and calls that never answer."""

import concurrent.futures
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.places import LIMIT_S
from tests.standin import MigInstance, World
from tests.waiting import until

from .remote import Reader, code_of

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN


@pytest.fixture
def aside(world: World) -> Iterator[concurrent.futures.Executor]:
    """Runs a call that may not come back before its fault is withdrawn."""
    with concurrent.futures.ThreadPoolExecutor() as executor:
        yield executor
        world.heal()


def test_a_fault_hits_one_function_of_one_card_until_withdrawn(nvml: Reader, world: World) -> None:
    third, fourth = nvml.nvmlDeviceGetHandleByIndex(3), nvml.nvmlDeviceGetHandleByIndex(4)
    token = world.fault("nvmlDeviceGetPowerUsage", card=3, error=UNKNOWN)
    assert code_of(lambda: nvml.nvmlDeviceGetPowerUsage(third)) == UNKNOWN
    assert nvml.nvmlDeviceGetPowerUsage(fourth) == 83_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(third) == 700_000
    world.heal(token)
    assert nvml.nvmlDeviceGetPowerUsage(third) == 83_000


def test_a_name_without_version_covers_all_versions(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    world.fault("nvmlDeviceGetMemoryInfo", error=UNKNOWN)
    assert code_of(lambda: nvml.nvmlDeviceGetMemoryInfo(handle)) == UNKNOWN
    second = code_of(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2))
    assert second == UNKNOWN
    assert nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total > 0


def test_every_call_on_a_lost_card_says_so(nvml: Reader, world: World) -> None:
    lost, other = nvml.nvmlDeviceGetHandleByIndex(2), nvml.nvmlDeviceGetHandleByIndex(1)
    world.fault("*", card=2, error=LOST)
    for call in (
        lambda: nvml.nvmlDeviceGetHandleByIndex(2),
        lambda: nvml.nvmlDeviceGetHandleByUUID(world[2].uuid),
        lambda: nvml.nvmlDeviceGetUUID(lost),
        lambda: nvml.nvmlDeviceGetMemoryInfo(lost),
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses(lost),
        lambda: nvml.nvmlDeviceGetSamples(lost, 1, 0),
        lambda: nvml.nvmlDeviceGetEccMode(lost),
        lambda: nvml.nvmlGpmQueryDeviceSupport(lost),
    ):
        assert code_of(call) == LOST
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlDeviceGetUtilizationRates(other).gpu == 0
    world.heal()
    assert nvml.nvmlDeviceGetUUID(lost) == world[2].uuid


def test_a_fault_of_a_slot_spares_the_card_and_its_other_instances(nvml: Reader, world: World) -> None:
    world[0].mig = [MigInstance(), MigInstance()]
    parent = nvml.nvmlDeviceGetHandleByIndex(0)
    handles = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, slot) for slot in (0, 1)]
    world.fault("nvmlDeviceGetUUID", card=0, mig=1, error=UNKNOWN)
    codes = [code_of(lambda h=h: nvml.nvmlDeviceGetUUID(h)) for h in (parent, *handles)]  # type: ignore[misc]
    assert codes == [0, 0, UNKNOWN]
    world.heal()
    world.fault("nvmlDeviceGetUUID", card=0, error=UNKNOWN)
    codes = [code_of(lambda h=h: nvml.nvmlDeviceGetUUID(h)) for h in (parent, *handles)]  # type: ignore[misc]
    assert codes == [UNKNOWN] * 3


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount"])
def test_calls_about_no_card_may_fail_too(nvml: Reader, world: World, name: str) -> None:
    world.fault(name, error=UNKNOWN)
    assert code_of(getattr(nvml, name)) == UNKNOWN
    world.heal()
    assert code_of(getattr(nvml, name)) == pynvml.NVML_SUCCESS


def test_a_delay_holds_the_answer_back_and_then_gives_it(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    world.fault("nvmlDeviceGetPowerUsage", card=0, delay_s=0.15)
    begin = time.monotonic()
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 83_000
    assert time.monotonic() - begin >= 0.15


@pytest.mark.more
def test_a_lookup_meets_a_delay_once(nvml: Reader, world: World) -> None:
    world.fault("nvmlDeviceGetHandleByIndex", delay_s=5.0)
    begin = time.monotonic()
    nvml.nvmlDeviceGetHandleByIndex(1)
    assert 5 <= time.monotonic() - begin < 10


def test_a_call_that_never_answers_goes_on_when_its_fault_is_withdrawn(
    nvml: Reader, world: World, aside: concurrent.futures.Executor
) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    token = world.fault("nvmlDeviceGetPowerUsage", card=0, error=UNKNOWN, never=True)
    answer = aside.submit(nvml.nvmlDeviceGetPowerUsage, handle)
    until(lambda: world.stuck() == 1)
    assert not answer.done()
    world[0].power_mw = 99_000
    world.heal(token)
    assert answer.result(timeout=LIMIT_S) == 99_000
    assert world.stuck() == 0


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlShutdown"])
def test_start_and_end_may_hang_too(
    nvml: Reader, world: World, aside: concurrent.futures.Executor, name: str
) -> None:
    world.fault(name, never=True)
    answer = aside.submit(getattr(nvml, name))
    until(lambda: world.stuck() == 1)
    world.heal()
    answer.result(timeout=LIMIT_S)


def test_a_reader_killed_while_it_hangs_is_stuck_no_more(world: World, library: Path) -> None:
    world.fault("*", card=0, never=True)
    hang = "import pynvml; pynvml.nvmlInit(); pynvml.nvmlDeviceGetHandleByIndex(0)"
    environ = {**os.environ, **world.environ(library)}
    with subprocess.Popen([sys.executable, "-c", hang], env=environ) as process:
        until(lambda: world.stuck() == 1)
        process.kill()
    assert world.stuck() == 0


def test_many_threads_of_one_process_may_hang_at_once(world: World, library: Path) -> None:
    world.fault("nvmlDeviceGetTemperature", never=True)
    hang = """
import threading, pynvml
pynvml.nvmlInit()
def read(i):
    pynvml.nvmlDeviceGetTemperature(pynvml.nvmlDeviceGetHandleByIndex(i), 0)
threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
[t.start() for t in threads]
pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(0))
[t.join() for t in threads]
"""
    environ = {**os.environ, **world.environ(library)}
    with subprocess.Popen([sys.executable, "-c", hang], env=environ) as process:
        until(lambda: world.stuck() == 8 and world.calls("nvmlDeviceGetPowerUsage") == 1)
        world.heal()
        assert process.wait(timeout=LIMIT_S) == 0
    assert world.stuck() == 0


def test_the_fault_table_fills_up_and_empties(nvml: Reader, world: World) -> None:
    tokens = [world.fault("nvmlDeviceGetCount", error=UNKNOWN) for _ in range(512)]
    with pytest.raises(RuntimeError, match="512"):
        world.fault("nvmlDeviceGetCount")
    for token in tokens[:-1]:
        world.heal(token)
    assert code_of(nvml.nvmlDeviceGetCount) == UNKNOWN
    world.heal(tokens[-1])
    assert nvml.nvmlDeviceGetCount() == 8


def test_calls_are_counted_in_all_versions_together(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert world.calls("nvmlDeviceGetMemoryInfo") == 0
    nvml.nvmlDeviceGetMemoryInfo(handle)
    nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert world.calls("nvmlDeviceGetMemoryInfo") == 2
    assert world.calls("nvmlDeviceGetMemoryInfo_v2") == 2
    assert world.calls("nvmlInit") == 1
    assert world.calls("nvmlDeviceGetHandleByIndex") == 1
