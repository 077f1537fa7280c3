"""Cards split into instances."""

import pynvml
import pytest

from tests.standin import MigInstance, Process, World

from .remote import Reader, Ref, code_of

SPLIT = [
    MigInstance(uuid="MIG-a", gpu_instance=7, memory_used=2**30, processes=[Process(pid=70, memory_bytes=700)]),
    None,
    MigInstance(uuid="MIG-c", gpu_instance=9, compute_instance=1, processes=[Process(pid=90)]),
]


@pytest.fixture
def parent(nvml: Reader, world: World) -> Ref:
    """The handle of card 1, which is split."""
    world[1].mig = SPLIT
    handle: Ref = nvml.nvmlDeviceGetHandleByIndex(1)
    return handle


def test_instances_are_found_in_their_slots_and_holes_are_not(nvml: Reader, parent: Ref) -> None:
    assert nvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
    codes = [
        code_of(lambda slot=slot: nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, slot))  # type: ignore[misc]
        for slot in range(8)
    ]
    missing = pynvml.NVML_ERROR_NOT_FOUND
    assert codes == [0, missing, 0, *[missing] * 4, pynvml.NVML_ERROR_INVALID_ARGUMENT]


def test_an_instance_has_a_name_memory_and_processes_of_its_own(nvml: Reader, parent: Ref) -> None:
    first, third = (nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, slot) for slot in (0, 2))
    assert (nvml.nvmlDeviceGetUUID(third), nvml.nvmlDeviceGetGpuInstanceId(third)) == ("MIG-c", 9)
    memory = nvml.nvmlDeviceGetMemoryInfo(first)
    assert (memory.total, memory.used) == (10 * 2**30, 2**30)
    assert [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(third)] == [90]
    found = nvml.nvmlDeviceGetComputeRunningProcesses(parent)
    entries = [(p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId) for p in found]
    assert entries == [(70, 700, 7, 0), (90, None, 9, 1)]


def test_neither_a_split_card_nor_an_instance_tells_utilization(nvml: Reader, parent: Ref) -> None:
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    for handle in (parent, instance):
        for call in (
            nvml.nvmlDeviceGetUtilizationRates,
            lambda h: nvml.nvmlDeviceGetSamples(h, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0),
            lambda h: nvml.nvmlDeviceGetProcessUtilization(h, 0),
        ):
            answer = code_of(lambda c=call, h=handle: c(h))  # type: ignore[misc]
            assert answer == pynvml.NVML_ERROR_NOT_SUPPORTED
