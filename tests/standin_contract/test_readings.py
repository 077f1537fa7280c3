"""The numbers of a card."""

import types

import pynvml
import pytest

from tests.standin import World

from . import raw
from .remote import Reader, code_of


def test_a_new_world_is_idle(nvml: Reader, world: World) -> None:
    for index in range(len(world)):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        assert nvml.nvmlDeviceGetUtilizationRates(handle) == types.SimpleNamespace(gpu=0, memory=0)
        assert nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2).used == 4 * 2**20
        assert nvml.nvmlDeviceGetPowerUsage(handle) == 83_000
        assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 700_000
        assert nvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == 30
        assert nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
        assert nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1


def test_every_number_is_live_and_belongs_to_its_card(nvml: Reader, world: World) -> None:
    card, handle = world[3], nvml.nvmlDeviceGetHandleByIndex(3)
    card.utilization, card.memory_utilization = 71, 40
    card.power_mw, card.power_limit_mw, card.temperature_c = 400_000, 500_000, 66
    card.pcie_tx_kbps, card.pcie_rx_kbps = 1234, 5678
    card.throttle_reasons, card.energy_mj, card.performance_state = 0x44, 2**40, 2
    card.clocks_mhz, card.max_clocks_mhz = (1, 2, 3, 4), (5, 6, 7, 8)
    card.encoder_utilization, card.decoder_utilization = 11, 12
    card.compute_mode, card.persistence_mode = 3, 0
    assert vars(nvml.nvmlDeviceGetUtilizationRates(handle)) == {"gpu": 71, "memory": 40}
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 400_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 500_000
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 500_000
    assert nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) == 700_000
    assert nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) == [200_000, 700_000]
    assert nvml.nvmlDeviceGetTemperature(handle, 0) == 66
    assert nvml.nvmlDeviceGetTemperatureV(handle, 0) == 66
    assert [nvml.nvmlDeviceGetPcieThroughput(handle, i) for i in (0, 1)] == [1234, 5678]
    assert nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == 0x44
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0x44
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 2**40
    assert nvml.nvmlDeviceGetPerformanceState(handle) == 2
    assert [nvml.nvmlDeviceGetClockInfo(handle, i) for i in range(4)] == [1, 2, 3, 4]
    assert [nvml.nvmlDeviceGetMaxClockInfo(handle, i) for i in range(4)] == [5, 6, 7, 8]
    assert nvml.nvmlDeviceGetEncoderUtilization(handle) == [11, 100_000]
    assert nvml.nvmlDeviceGetDecoderUtilization(handle) == [12, 100_000]
    assert nvml.nvmlDeviceGetComputeMode(handle) == 3
    assert nvml.nvmlDeviceGetPersistenceMode(handle) == 0
    assert nvml.nvmlDeviceGetCudaComputeCapability(handle) == [9, 0]
    other = nvml.nvmlDeviceGetHandleByIndex(4)
    assert nvml.nvmlDeviceGetPowerUsage(other) == 83_000


def test_the_old_memory_call_counts_the_reserved_part_as_used(nvml: Reader, world: World) -> None:
    card, handle = world[0], nvml.nvmlDeviceGetHandleByIndex(0)
    card.memory_total, card.memory_used, card.memory_reserved = 1000, 300, 50
    assert vars(nvml.nvmlDeviceGetMemoryInfo(handle)) == {"total": 1000, "free": 650, "used": 350}
    new = nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert (new.total, new.reserved, new.free, new.used) == (1000, 50, 650, 300)


def test_a_card_without_a_fan_says_so(nvml: Reader, world: World) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    fan = code_of(lambda: nvml.nvmlDeviceGetFanSpeed(handle))
    assert fan == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert nvml.nvmlDeviceGetNumFans(handle) == 0
    world[0].fan_speed = 55
    assert world[0].fan_speed == 55
    assert nvml.nvmlDeviceGetFanSpeed(handle) == 55
    assert nvml.nvmlDeviceGetFanSpeed_v2(handle, 0) == 55


@pytest.mark.parametrize(
    ("name", "struct"),
    [
        ("nvmlDeviceGetTemperatureV", "c_nvmlTemperature_v1_t"),
        ("nvmlDeviceGetRunningProcessDetailList", "c_nvmlProcessDetailList_t"),
        ("nvmlDeviceGetProcessesUtilizationInfo", "c_nvmlProcessesUtilizationInfo_v1_t"),
        ("nvmlGpmQueryDeviceSupport", "c_nvmlGpmSupport_t"),
    ],
)
def test_a_struct_of_an_unknown_version_is_a_version_mismatch(nvml: Reader, name: str, struct: str) -> None:
    for version in (0, 7, 0x70000FF):
        answer = nvml.run(raw.versioned, name, 0, struct, version)
        assert answer == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_memory_of_an_unknown_version_is_a_function_not_found(nvml: Reader) -> None:
    answer = nvml.run(raw.versioned, "nvmlDeviceGetMemoryInfo_v2", 0, "c_nvmlMemory_v2_t", 2)
    assert answer == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


def test_field_values_are_answered_one_by_one(nvml: Reader, world: World) -> None:
    world[1].power_mw, world[1].energy_mj = 123_000, 2**33 + 5
    wanted = [pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_FI_DEV_ECC_CURRENT, 99_999]
    values = nvml.nvmlDeviceGetFieldValues(nvml.nvmlDeviceGetHandleByIndex(1), wanted)
    assert [value.nvmlReturn for value in values] == [
        pynvml.NVML_SUCCESS,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    ]
    assert values[0].value == 123_000


def test_error_counters_are_not_supported(nvml: Reader) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    unsupported = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code_of(lambda: nvml.nvmlDeviceGetEccMode(handle)) == unsupported
    assert code_of(lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0)) == unsupported


def test_a_number_that_does_not_fit_is_refused(world: World) -> None:
    for value in (-1, 2**32):
        with pytest.raises(ValueError, match="does not fit"):
            world[0].utilization = value
    with pytest.raises(ValueError, match="longer than"):
        world[0].name = "x" * 96
