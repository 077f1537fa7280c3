"""Every call of our binding beside the same call of NVIDIA's, in one process.

Prints, for each card, each call and each binding, what was answered: a value, or the number and words of the error.
"""

import ctypes
import json
from types import ModuleType
from typing import Any

import pynvml

from fallow.readers import nvml_library

PLAIN = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlGpmQueryDeviceSupport",
    *(
        f"nvmlDeviceGet{kind}RunningProcesses_{version}"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in ("v2", "v3")
    ),
)
WITH_ARGUMENTS = (
    ("nvmlDeviceGetMemoryInfo", nvml_library.nvmlMemory_v2),
    ("nvmlDeviceGetTemperature", 0),
    ("nvmlDeviceGetClockInfo", 1),
    ("nvmlDeviceGetClockInfo", 2),
    ("nvmlDeviceGetClockInfo", 99),
    ("nvmlDeviceGetPcieThroughput", 0),
    ("nvmlDeviceGetPcieThroughput", 1),
    ("nvmlDeviceGetSamples", 1, 0),
    ("nvmlDeviceGetSamples", 1, 2_000_000),
    ("nvmlDeviceGetProcessUtilization", 0),
    ("nvmlDeviceGetProcessUtilization", 10**15),
)
METRICS = (2, 3, 5, 10, 21, 20)


def plain(answer: Any) -> Any:
    """An answer as JSON can say it. A struct is its fields; our name for one of them is NVIDIA's."""
    if isinstance(answer, ctypes.Structure):
        names = [name for name, *_ in answer._fields_]
        return {
            name.replace("used_bytes", "usedGpuMemory"): plain(
                getattr(answer, name.replace("used_bytes", "usedGpuMemory"))
            )
            for name in names
        }
    if isinstance(answer, ctypes.Union):
        return answer.ullVal
    if isinstance(answer, list | tuple):
        return [plain(each) for each in answer]
    if isinstance(answer, bool | int | float | str | None):
        return answer
    if hasattr(answer, "__dict__"):
        return {name: plain(each) for name, each in vars(answer).items()}
    raise TypeError(f"{answer!r} cannot be compared")


def asked(binding: ModuleType, name: str, *args: Any) -> Any:
    """What one binding answers to one call."""
    try:
        return plain(getattr(binding, name)(*args))
    except binding.NVMLError as error:
        return {"error": error.value}


def of_card(binding: ModuleType, handle: Any) -> dict[str, Any]:
    """All that one binding says of a device."""
    told = {name: asked(binding, name, handle) for name in PLAIN}
    told |= {repr(call): asked(binding, call[0], handle, *call[1:]) for call in WITH_ARGUMENTS}
    try:
        told["counters"] = counters(binding, handle)
    except binding.NVMLError as error:
        told["counters"] = {"error": error.value}
    return told


def counters(binding: ModuleType, handle: Any) -> list[Any]:
    """Hardware counters between two samples."""
    first, second = binding.nvmlGpmSampleAlloc(), binding.nvmlGpmSampleAlloc()
    binding.nvmlGpmSampleGet(handle, first)
    binding.nvmlGpmSampleGet(handle, second)
    request = binding.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = binding.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    request.sample1, request.sample2 = first, second
    for slot, metric in enumerate(METRICS):
        request.metrics[slot].metricId = metric
    answer = binding.nvmlGpmMetricsGet(request)
    return [[each.metricId, each.nvmlReturn, each.value] for each in answer.metrics[: len(METRICS)]]


def all_of(binding: ModuleType) -> dict[str, Any]:
    """All that one binding says of this machine."""
    try:
        binding.nvmlInit()
    except binding.NVMLError as error:
        return {"init": error.value}
    count = binding.nvmlDeviceGetCount()
    told: dict[str, Any] = {
        "count": count,
        "driver": asked(binding, "nvmlSystemGetDriverVersion"),
        "cuda": asked(binding, "nvmlSystemGetCudaDriverVersion_v2"),
        "no such card": asked(binding, "nvmlDeviceGetHandleByIndex", 99),
    }
    handles = [binding.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    for index, handle in enumerate(handles):
        told[f"card {index}"] = of_card(binding, handle)
        for slot in range(3):
            try:
                instance = binding.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
            except binding.NVMLError as error:
                told[f"card {index}, instance {slot}"] = {"error": error.value}
                continue
            told[f"card {index}, instance {slot}"] = of_card(binding, instance)
    told["links"] = [
        [asked(binding, "nvmlDeviceGetP2PStatus", one, other, 2) for other in handles] for one in handles
    ]
    told["ancestors"] = [
        [asked(binding, "nvmlDeviceGetTopologyCommonAncestor", one, other) for other in handles] for one in handles
    ]
    binding.nvmlShutdown()
    return told


if __name__ == "__main__":
    print(json.dumps({"ours": all_of(nvml_library), "theirs": all_of(pynvml)}))
