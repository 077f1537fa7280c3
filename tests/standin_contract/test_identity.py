"""Finding cards by every name they have."""

import pynvml
import pytest

from tests.standin import World

from . import raw
from .remote import Reader, code_of


def test_a_card_is_found_by_number_uuid_and_bus(nvml: Reader, world: World) -> None:
    for index, card in enumerate(world):
        for handle in (
            nvml.nvmlDeviceGetHandleByIndex(index),
            nvml.nvmlDeviceGetHandleByUUID(card.uuid),
            nvml.nvmlDeviceGetHandleByPciBusId(card.pci_bus_id),
            nvml.nvmlDeviceGetHandleByPciBusId(card.pci_bus_id[4:]),
            nvml.nvmlDeviceGetHandleByPciBusId(card.pci_bus_id[9:]),
        ):
            assert nvml.nvmlDeviceGetIndex(handle) == index
            assert nvml.nvmlDeviceGetUUID(handle) == card.uuid


def test_buses_are_distinct_and_in_the_order_of_the_cards(nvml: Reader, world: World) -> None:
    buses = [nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByIndex(i)).busId for i in range(len(world))]
    assert buses == sorted(set(buses)) == [card.pci_bus_id for card in world]


def test_what_does_not_exist_is_not_found(nvml: Reader) -> None:
    invalid, missing = pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND
    assert code_of(lambda: nvml.nvmlDeviceGetHandleByIndex(8)) == invalid
    assert code_of(lambda: nvml.nvmlDeviceGetHandleByUUID("GPU-0")) == missing
    assert code_of(lambda: nvml.nvmlDeviceGetHandleByPciBusId("00000000:FE:00.0")) == missing
    assert code_of(lambda: nvml.nvmlDeviceGetHandleByPciBusId("junk")) == invalid


@pytest.mark.parametrize("cards", [1, 64])
def test_a_world_has_one_to_sixty_four_cards(reader: Reader, world: World, cards: int) -> None:
    with World.create(world.path, cards=cards) as other:
        reader.nvmlInit()
        assert reader.nvmlDeviceGetCount() == cards
        last = reader.nvmlDeviceGetHandleByIndex(cards - 1)
        assert reader.nvmlDeviceGetUUID(last) == other[cards - 1].uuid


def test_a_minor_number_need_not_be_the_index(nvml: Reader, world: World) -> None:
    world[2].minor = 5
    assert nvml.nvmlDeviceGetMinorNumber(nvml.nvmlDeviceGetHandleByIndex(2)) == 5


def test_names_may_change_while_they_are_read(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"
    world[0].name = "NVIDIA A100-SXM4-40GB"
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize("name", ["UUID", "Name", "Serial", "VbiosVersion", "BoardPartNumber"])
def test_a_buffer_too_small_for_a_string_is_refused(nvml: Reader, name: str) -> None:
    function = f"nvmlDeviceGet{name}"
    answer, value = nvml.run(raw.text, function, 0, 255)
    assert answer == pynvml.NVML_SUCCESS
    small = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert nvml.run(raw.text, function, 0, len(value)) == [small, ""]
    assert nvml.run(raw.text, function, 0, len(value) + 1) == [pynvml.NVML_SUCCESS, value]


@pytest.mark.parametrize("address", [None, 0x1234])
def test_what_is_no_handle_is_an_invalid_argument(nvml: Reader, address: int | None) -> None:
    for name in ("PowerUsage", "Index", "MemoryInfo", "UtilizationRates", "GpuInstanceId"):
        answer = nvml.run(raw.code_on_handle, f"nvmlDeviceGet{name}", address)
        assert answer == pynvml.NVML_ERROR_INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("name", "card", "args"),
    [
        ("nvmlDeviceGetCount_v2", None, (None,)),
        ("nvmlDeviceGetHandleByIndex_v2", None, (0, None)),
        ("nvmlDeviceGetHandleByUUID", None, (None, None)),
        ("nvmlDeviceGetPowerUsage", 0, (None,)),
        ("nvmlDeviceGetMemoryInfo", 0, (None,)),
        ("nvmlDeviceGetMemoryInfo_v2", 0, (None,)),
        ("nvmlDeviceGetUtilizationRates", 0, (None,)),
        ("nvmlDeviceGetMigMode", 0, (None, None)),
        ("nvmlDeviceGetComputeRunningProcesses_v3", 0, (None, None)),
        ("nvmlDeviceGetProcessUtilization", 0, (None, None, 0)),
        ("nvmlDeviceGetFieldValues", 0, (1, None)),
        ("nvmlDeviceGetName", 0, (None, 96)),
        ("nvmlDeviceGetTemperature", 0, (0, None)),
        ("nvmlGpmSampleAlloc", None, (None,)),
        ("nvmlGpmSampleGet", 0, (None,)),
        ("nvmlGpmMetricsGet", None, (None,)),
    ],
)
def test_a_null_pointer_is_an_invalid_argument(
    nvml: Reader, name: str, card: int | None, args: tuple[object, ...]
) -> None:
    assert nvml.run(raw.code, name, card, *args) == pynvml.NVML_ERROR_INVALID_ARGUMENT
