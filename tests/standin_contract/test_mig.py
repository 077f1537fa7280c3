"""Cards split into instances."""

import pytest

from tests.standin import MigInstance, Process, World

from .remote import INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, OK, Reader

GIB = 2**30
SPLIT = [
    MigInstance(uuid="MIG-a", gpu_instance=7, memory_used=GIB, processes=[Process(pid=70, memory_bytes=700)]),
    None,
    MigInstance(uuid="MIG-c", gpu_instance=9, processes=[Process(pid=90)]),
]


@pytest.fixture(autouse=True)
def _split(world: World) -> None:
    """Card 1 is split."""
    world[1].mig = SPLIT


def test_instances_are_found_in_their_slots_and_holes_are_not(nvml: Reader) -> None:
    assert nvml("nvml.nvmlDeviceGetMigMode(card(1))") == [1, 1]
    assert nvml("nvml.nvmlDeviceGetMaxMigDeviceCount(card(1))") == 7
    codes = [nvml(f"code(lambda: instance(1, {slot}))") for slot in (0, 1, 2, 3, 8)]
    assert codes == [OK, NOT_FOUND, OK, NOT_FOUND, INVALID_ARGUMENT]


def test_an_instance_has_a_name_memory_and_processes_of_its_own(nvml: Reader) -> None:
    assert nvml("nvml.nvmlDeviceGetUUID(instance(1, 2))") == "MIG-c"
    assert nvml("nvml.nvmlDeviceGetGpuInstanceId(instance(1, 2))") == 9
    assert nvml("used(instance(1, 0))") == GIB
    assert nvml("listed(instance(1, 0)) + listed(instance(1, 2))") == [[70, 700], [90, None]]


def test_neither_a_split_card_nor_an_instance_tells_utilization(nvml: Reader) -> None:
    for device in ("card(1)", "instance(1, 0)"):
        for call in ("UtilizationRates({})", "Samples({}, 1, 0)", "ProcessUtilization({}, 0)"):
            assert nvml(f"code(lambda: nvml.nvmlDeviceGet{call.format(device)})") == NOT_SUPPORTED
