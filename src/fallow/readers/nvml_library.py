"""A binding of the driver's library: the calls that fallow makes, with NVIDIA's names and numbers.

NVIDIA's own binding has over 600 calls, and loading it takes longer than the rest of a pick. This one has those that
are needed. The tests compare each call, number and struct with NVIDIA's.
"""

import ctypes
from collections.abc import Callable
from ctypes import Structure, byref, c_char_p, c_double, c_int, c_uint, c_ulonglong, c_void_p

from fallow.core.annotations import Any

NVML_SUCCESS = 0
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_INSUFFICIENT_SIZE = 7
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_RESET_REQUIRED = 16
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_PSTATE_UNKNOWN = 32
NVML_DEVICE_MIG_ENABLE = 1
NVML_PCIE_UTIL_TX_BYTES = 0
NVML_PCIE_UTIL_RX_BYTES = 1
NVML_GPU_UTILIZATION_SAMPLES = 1
NVML_P2P_CAPS_INDEX_NVLINK = 2
NVML_P2P_STATUS_OK = 0
NVML_TOPOLOGY_INTERNAL = 0
NVML_TOPOLOGY_SINGLE = 10
NVML_TOPOLOGY_MULTIPLE = 20
NVML_TOPOLOGY_HOSTBRIDGE = 30
NVML_TOPOLOGY_NODE = 40
NVML_TOPOLOGY_SYSTEM = 50

NVML_GPM_METRICS_GET_VERSION = 1
NVML_GPM_SUPPORT_VERSION = 1
NVML_GPM_METRIC_SM_UTIL = 2
NVML_GPM_METRIC_SM_OCCUPANCY = 3
NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5
NVML_GPM_METRIC_DRAM_BW_UTIL = 10
NVML_GPM_METRIC_FP64_UTIL = 11
NVML_GPM_METRIC_FP32_UTIL = 12
NVML_GPM_METRIC_FP16_UTIL = 13
NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20
NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21
NVML_GPM_METRIC_MAX = 477

_NAME = "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_NOT_TOLD = 2**64 - 1
_MOST_ROWS = 2**16  # of one list: a larger number makes no sense
_ROOM = 8  # for the processes of a GPU, of which most have fewer: a longer list is asked for a second time

Handle = Any
"""A pointer to something of the library."""
Call = Callable[..., Any]


class NVMLError(Exception):
    """An error of the library; `value` is its number."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(_in_words(value))


class Utilization(Structure):
    """Utilization in per cent."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class MemoryInfo(Structure):
    """Memory in bytes; what the firmware reserves is a separate field."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class ProcessInfo(Structure):
    """One process on a GPU."""

    _fields_ = (
        ("pid", c_uint),
        ("used_bytes", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )

    @property
    def usedGpuMemory(self) -> int | None:
        """Return bytes in use; None if the driver does not know."""
        return None if self.used_bytes == _NOT_TOLD else int(self.used_bytes)


_FEW_PROCESSES = ProcessInfo * _ROOM


class _Value(ctypes.Union):
    _fields_ = (("dVal", c_double), ("uiVal", c_uint), ("ullVal", c_ulonglong))


class Sample(Structure):
    """One sample of a GPU's utilization; its time in microseconds."""

    _fields_ = (("timeStamp", c_ulonglong), ("sampleValue", _Value))


class ProcessSample(Structure):
    """How much of the time a process ran."""

    _fields_ = (
        ("pid", c_uint),
        ("timeStamp", c_ulonglong),
        ("smUtil", c_uint),
        ("memUtil", c_uint),
        ("encUtil", c_uint),
        ("decUtil", c_uint),
    )


class _MetricNames(Structure):
    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class _Metric(Structure):
    _fields_ = (("metricId", c_uint), ("nvmlReturn", c_uint), ("value", c_double), ("metricInfo", _MetricNames))


class c_nvmlGpmMetricsGet_t(Structure):
    """A request for hardware counters between two samples."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", _Metric * NVML_GPM_METRIC_MAX),
    )


class GpmSupport(Structure):
    """Whether a GPU has hardware counters."""

    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))


nvmlMemory_v2 = ctypes.sizeof(MemoryInfo) | 2 << 24  # a struct's size and version, as the library expects it

_library: ctypes.CDLL | None = None
_functions: dict[str, Call] = {}


def nvmlInit() -> None:
    """Load the library and initialise it."""
    global _library  # noqa: PLW0603  one library in a process, as there is one driver
    if _library is None:
        try:
            _library = ctypes.CDLL(_NAME)
        except OSError:
            raise NVMLError(NVML_ERROR_LIBRARY_NOT_FOUND) from None
    _check(_function("nvmlInit_v2")())


def nvmlDeviceGetMigMode(handle: Handle) -> list[int]:
    """Return the mode now, and the one after the next reset."""
    now, then = c_uint(), c_uint()
    _check(_function("nvmlDeviceGetMigMode")(handle, byref(now), byref(then)))
    return [now.value, then.value]


def nvmlDeviceGetSamples(handle: Handle, kind: int, since_us: int) -> tuple[int, list[Sample]]:
    """Return the type of the samples, and the samples after that time."""
    get, since = _function("nvmlDeviceGetSamples"), c_ulonglong(since_us)
    form, count = c_uint(), c_uint()
    _check(get(handle, kind, since, byref(form), byref(count), None))
    samples = (Sample * _bounded(count))()
    _check(get(handle, kind, since, byref(form), byref(count), samples))
    return form.value, samples[: count.value]


def nvmlDeviceGetProcessUtilization(handle: Handle, since_us: int) -> list[ProcessSample]:
    """Return what ran after that time."""
    get, since, count = _function("nvmlDeviceGetProcessUtilization"), c_ulonglong(since_us), c_uint()
    answer = get(handle, None, byref(count), since)
    if answer != NVML_ERROR_INSUFFICIENT_SIZE:
        raise NVMLError(answer)
    samples = (ProcessSample * _bounded(count))()
    _check(get(handle, samples, byref(count), since))
    return samples[: count.value]


def nvmlGpmMetricsGet(request: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t:
    """Return what was counted between two samples."""
    _check(_function("nvmlGpmMetricsGet")(byref(request)))
    return request


def _function(name: str) -> Call:
    found = _functions.get(name)
    if found is None:
        try:
            found = _functions[name] = getattr(_library, name)
        except AttributeError:
            raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND) from None
    return found


def _check(answer: int) -> None:
    if answer != NVML_SUCCESS:
        raise NVMLError(answer)


def _in_words(value: int) -> str:
    """Return the library's message for an error number."""
    spoken = getattr(_library, "nvmlErrorString", None)
    if spoken is None:
        return f"error {value}"
    spoken.argtypes, spoken.restype = [c_uint], c_char_p
    return (spoken(value) or b"").decode(errors="replace") or f"error {value}"


def _bounded(count: c_uint) -> int:
    """Return a number of rows, at most as many as make sense: their memory is allocated here."""
    count.value = min(count.value, _MOST_ROWS)
    return count.value


def _named(name: str, call: Call) -> Call:
    call.__name__ = call.__qualname__ = name
    return call


def _answers(name: str, kind: Any, symbol: str | None = None) -> Call:
    """Make a call that returns a number through its last argument."""

    def call(*args: object) -> Any:
        answer = kind()
        status = (_functions.get(wanted) or _function(wanted))(*args, byref(answer))
        if status != NVML_SUCCESS:
            raise NVMLError(status)
        return answer.value

    wanted = symbol or name
    return _named(name, call)


def _does(name: str) -> Call:
    """Make a call that returns nothing."""
    return _named(name, lambda *args: _check(_function(name)(*args)))


def _hands_out(name: str, symbol: str | None = None) -> Call:
    """Make a call that returns a pointer."""

    def call(*args: object) -> Handle:
        handle = c_void_p()
        _check(_function(symbol or name)(*args, byref(handle)))
        return handle

    return _named(name, call)


def _fills(name: str, kind: type[Structure], *fields: int) -> Call:
    """Make a call that fills a struct."""

    def call(handle: Handle) -> Any:
        struct = kind(*fields)
        _check(_function(name)(handle, byref(struct)))
        return struct

    return _named(name, call)


def _says(name: str) -> Call:
    """Make a call that returns a text."""

    def call(*args: object) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        _check(_function(name)(*args, text, c_uint(_TEXT_BYTES)))
        return text.value.decode()

    return _named(name, call)


def _lists(name: str) -> Call:
    """Make a call that lists processes."""

    def call(handle: Handle) -> list[ProcessInfo]:
        get, count, rows = _function(name), c_uint(_ROOM), _FEW_PROCESSES()
        answer = get(handle, byref(count), rows)
        if answer == NVML_ERROR_INSUFFICIENT_SIZE:
            count.value = count.value * 2 + _ROOM
            rows = (ProcessInfo * _bounded(count))()
            answer = get(handle, byref(count), rows)
        _check(answer)
        return rows[: count.value]

    return _named(name, call)


nvmlShutdown = _does("nvmlShutdown")
nvmlGpmSampleGet = _does("nvmlGpmSampleGet")
nvmlGpmMigSampleGet = _does("nvmlGpmMigSampleGet")
nvmlDeviceGetCount = _answers("nvmlDeviceGetCount", c_uint, "nvmlDeviceGetCount_v2")
nvmlDeviceGetHandleByIndex = _hands_out("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
nvmlGpmSampleAlloc = _hands_out("nvmlGpmSampleAlloc")
nvmlDeviceGetMigDeviceHandleByIndex = _hands_out("nvmlDeviceGetMigDeviceHandleByIndex")
nvmlDeviceGetMaxMigDeviceCount = _answers("nvmlDeviceGetMaxMigDeviceCount", c_uint)
nvmlDeviceGetGpuInstanceId = _answers("nvmlDeviceGetGpuInstanceId", c_uint)
nvmlDeviceGetUUID = _says("nvmlDeviceGetUUID")
nvmlDeviceGetName = _says("nvmlDeviceGetName")
nvmlDeviceGetMinorNumber = _answers("nvmlDeviceGetMinorNumber", c_uint)
nvmlDeviceGetTemperature = _answers("nvmlDeviceGetTemperature", c_uint)
nvmlDeviceGetPowerUsage = _answers("nvmlDeviceGetPowerUsage", c_uint)
nvmlDeviceGetEnforcedPowerLimit = _answers("nvmlDeviceGetEnforcedPowerLimit", c_uint)
nvmlDeviceGetPerformanceState = _answers("nvmlDeviceGetPerformanceState", c_uint)
nvmlDeviceGetClockInfo = _answers("nvmlDeviceGetClockInfo", c_uint)
nvmlDeviceGetPcieThroughput = _answers("nvmlDeviceGetPcieThroughput", c_uint)
nvmlDeviceGetCurrentClocksThrottleReasons = _answers("nvmlDeviceGetCurrentClocksThrottleReasons", c_ulonglong)
nvmlDeviceGetP2PStatus = _answers("nvmlDeviceGetP2PStatus", c_uint)
nvmlDeviceGetTopologyCommonAncestor = _answers("nvmlDeviceGetTopologyCommonAncestor", c_uint)
nvmlSystemGetDriverVersion = _says("nvmlSystemGetDriverVersion")
nvmlSystemGetCudaDriverVersion_v2 = _answers("nvmlSystemGetCudaDriverVersion_v2", c_int)
nvmlDeviceGetComputeRunningProcesses_v3 = _lists("nvmlDeviceGetComputeRunningProcesses_v3")
nvmlDeviceGetGraphicsRunningProcesses_v3 = _lists("nvmlDeviceGetGraphicsRunningProcesses_v3")
nvmlDeviceGetMPSComputeRunningProcesses_v3 = _lists("nvmlDeviceGetMPSComputeRunningProcesses_v3")
nvmlDeviceGetMemoryInfo_v2 = _fills("nvmlDeviceGetMemoryInfo_v2", MemoryInfo, nvmlMemory_v2)
nvmlDeviceGetUtilizationRates = _fills("nvmlDeviceGetUtilizationRates", Utilization)
nvmlGpmQueryDeviceSupport = _fills("nvmlGpmQueryDeviceSupport", GpmSupport, NVML_GPM_SUPPORT_VERSION)
