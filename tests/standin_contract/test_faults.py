"""Errors, and calls that never answer."""

import concurrent.futures

import pynvml

from tests.places import LIMIT_S
from tests.standin import World
from tests.waiting import until

from .remote import Reader, code_of

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN


def test_a_fault_hits_all_versions_of_one_call_on_one_card_until_withdrawn(nvml: Reader, world: World) -> None:
    third, fourth = nvml.nvmlDeviceGetHandleByIndex(3), nvml.nvmlDeviceGetHandleByIndex(4)
    token = world.fault("nvmlDeviceGetMemoryInfo", card=3, error=UNKNOWN)
    assert code_of(lambda: nvml.nvmlDeviceGetMemoryInfo(third)) == UNKNOWN
    assert code_of(lambda: nvml.nvmlDeviceGetMemoryInfo(third, pynvml.nvmlMemory_v2)) == UNKNOWN
    assert nvml.nvmlDeviceGetMemoryInfo(fourth).total == world[4].memory_total
    assert nvml.nvmlDeviceGetPowerUsage(third) == 83_000
    world.heal(token)
    assert nvml.nvmlDeviceGetMemoryInfo(third).total == world[3].memory_total


def test_every_call_on_a_lost_card_says_so(nvml: Reader, world: World) -> None:
    lost, other = nvml.nvmlDeviceGetHandleByIndex(2), nvml.nvmlDeviceGetHandleByIndex(1)
    world.fault("*", card=2, error=LOST)
    for call in (
        lambda: nvml.nvmlDeviceGetHandleByIndex(2),
        lambda: nvml.nvmlDeviceGetUUID(lost),
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses(lost),
        lambda: nvml.nvmlDeviceGetSamples(lost, 1, 0),
        lambda: nvml.nvmlGpmQueryDeviceSupport(lost),
    ):
        assert code_of(call) == LOST
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlDeviceGetUtilizationRates(other).gpu == 0


def test_a_call_that_never_answers_goes_on_when_its_fault_is_withdrawn(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    token = world.fault("nvmlDeviceGetPowerUsage", card=0, error=UNKNOWN, never=True)
    with concurrent.futures.ThreadPoolExecutor() as executor:
        answer = executor.submit(nvml.nvmlDeviceGetPowerUsage, handle)
        until(lambda: world.stuck() == 1)
        assert not answer.done()
        world[0].power_mw = 99_000
        world.heal(token)
        assert answer.result(timeout=LIMIT_S) == 99_000
    assert world.stuck() == 0
