"""Cards split into instances."""

import pynvml
import pytest

from tests.standin import MigInstance, Process, World

from . import raw
from .remote import Reader, Ref, code_of

UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
SPLIT = [
    MigInstance(
        uuid="MIG-a",
        gpu_instance=7,
        memory_used=2**30,
        processes=[Process(pid=70, memory_bytes=700)],
        gpm={2: 31.0},
    ),
    None,
    MigInstance(
        uuid="MIG-c",
        gpu_instance=9,
        compute_instance=1,
        gpu_slices=2,
        compute_slices=2,
        memory_total=20 * 2**30,
        processes=[Process(pid=90)],
    ),
]


@pytest.fixture
def parent(nvml: Reader, world: World) -> Ref:
    """The handle of card 1, which is split."""
    world[1].mig = SPLIT
    handle: Ref = nvml.nvmlDeviceGetHandleByIndex(1)
    return handle


def test_a_card_that_is_not_split_has_no_instances(nvml: Reader) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetMigMode(handle) == [0, 0]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0
    answer = code_of(lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0))
    assert answer == pynvml.NVML_ERROR_NOT_FOUND


def test_a_card_that_cannot_be_split_does_not_support_it(nvml: Reader, world: World) -> None:
    world[0].mig_capable = False
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert code_of(lambda: nvml.nvmlDeviceGetMigMode(handle)) == UNSUPPORTED
    assert code_of(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) == UNSUPPORTED
    assert code_of(lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)) == UNSUPPORTED


def test_instances_are_found_in_their_slots_and_holes_are_not(nvml: Reader, parent: Ref) -> None:
    assert nvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
    codes = [
        code_of(lambda slot=slot: nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, slot))  # type: ignore[misc]
        for slot in range(8)
    ]
    missing = pynvml.NVML_ERROR_NOT_FOUND
    assert codes == [0, missing, 0, *[missing] * 4, pynvml.NVML_ERROR_INVALID_ARGUMENT]


def test_an_instance_knows_itself_and_its_card(nvml: Reader, world: World, parent: Ref) -> None:
    handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 2)
    assert nvml.nvmlDeviceIsMigDeviceHandle(handle) == 1
    assert nvml.nvmlDeviceIsMigDeviceHandle(parent) == 0
    assert nvml.nvmlDeviceGetUUID(handle) == "MIG-c"
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3 MIG 2g.20gb"
    assert nvml.nvmlDeviceGetIndex(handle) == 2
    assert nvml.nvmlDeviceGetGpuInstanceId(handle) == 9
    assert nvml.nvmlDeviceGetComputeInstanceId(handle) == 1
    back = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    assert nvml.nvmlDeviceGetUUID(back) == world[1].uuid
    by_uuid = nvml.nvmlDeviceGetHandleByUUID("MIG-c")
    assert nvml.nvmlDeviceGetGpuInstanceId(by_uuid) == 9


def test_an_instance_has_memory_and_slices_of_its_own(nvml: Reader, parent: Ref) -> None:
    first = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    memory = nvml.nvmlDeviceGetMemoryInfo(first)
    assert (memory.total, memory.used) == (10 * 2**30, 2**30)
    third = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 2)
    attributes = nvml.nvmlDeviceGetAttributes(third)
    assert attributes.gpuInstanceSliceCount == 2
    assert attributes.computeInstanceSliceCount == 2
    assert attributes.memorySizeMB == 20 * 1024


def test_a_split_card_lists_all_processes_and_an_instance_its_own(nvml: Reader, parent: Ref) -> None:
    found = nvml.nvmlDeviceGetComputeRunningProcesses(parent)
    entries = [(p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId) for p in found]
    assert entries == [(70, 700, 7, 0), (90, None, 9, 1)]
    third = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 2)
    own = nvml.nvmlDeviceGetComputeRunningProcesses(third)
    assert [p.pid for p in own] == [90]
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses(third) == []


def test_neither_a_split_card_nor_an_instance_tells_utilization(nvml: Reader, parent: Ref) -> None:
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    kind = pynvml.NVML_GPU_UTILIZATION_SAMPLES
    for handle in (parent, instance):
        for call in (
            nvml.nvmlDeviceGetUtilizationRates,
            lambda h: nvml.nvmlDeviceGetSamples(h, kind, 0),
            lambda h: nvml.nvmlDeviceGetProcessUtilization(h, 0),
            nvml.nvmlDeviceGetEncoderUtilization,
        ):
            assert code_of(lambda c=call, h=handle: c(h)) == UNSUPPORTED  # type: ignore[misc]


def test_power_is_that_of_the_whole_card(nvml: Reader, parent: Ref) -> None:
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    assert nvml.nvmlDeviceGetPowerUsage(parent) == 83_000
    assert code_of(lambda: nvml.nvmlDeviceGetPowerUsage(instance)) == UNSUPPORTED


def test_what_only_instances_have_is_invalid_on_a_card(nvml: Reader, parent: Ref) -> None:
    invalid = pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(lambda: nvml.nvmlDeviceGetGpuInstanceId(parent)) == invalid
    from_card = code_of(lambda: nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(parent))
    assert from_card == invalid
    assert code_of(lambda: nvml.nvmlDeviceGetAttributes(parent)) == UNSUPPORTED


def test_metrics_of_an_instance_go_by_its_number(nvml: Reader, parent: Ref) -> None:
    assert nvml.run(raw.metrics, 1, [2], 7) == [0, [[2, 0, 31.0]]]
    assert nvml.run(raw.metrics, 1, [2], 9) == [0, [[2, 0, 0.0]]]


def test_a_handle_of_an_instance_that_is_gone_is_invalid(nvml: Reader, world: World, parent: Ref) -> None:
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    world[1].mig = None
    assert world[1].mig is None
    gone = code_of(lambda: nvml.nvmlDeviceGetUUID(instance))
    assert gone == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetUtilizationRates(parent).gpu == 0


def test_a_split_card_remembers_its_instances(world: World) -> None:
    world[1].mig = SPLIT
    first, hole, third = world[1].mig
    assert first is not None
    assert first.name == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert first.processes == [Process(pid=70, memory_bytes=700)]
    assert first.gpm == {2: 31.0}
    assert hole is None
    assert third is not None
    assert third.gpu_slices == 2


def test_an_instance_without_a_uuid_is_given_one_of_its_own(world: World) -> None:
    world[2].mig = [MigInstance(), MigInstance()]
    world[3].mig = [MigInstance()]
    made = [*world[2].mig, *world[3].mig]
    uuids = {instance.uuid for instance in made if instance is not None}
    assert len(uuids) == 3
    assert all(uuid.startswith("MIG-") for uuid in uuids)
