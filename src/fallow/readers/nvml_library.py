"""A binding of the driver's library: the shapes of its calls, and NVIDIA's numbers and structs.

NVIDIA's own binding has over 600 calls, and loading it takes longer than the rest of a pick. Here a call is made by
its name, in the shape that it has. The tests compare each number and struct with NVIDIA's.
"""

import ctypes
from collections.abc import Callable
from ctypes import Structure, byref, c_char_p, c_double, c_uint, c_ulonglong, c_void_p

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


nvmlMemory_v2 = ctypes.sizeof(MemoryInfo) | 2 << 24  # a struct's size and version, as the library expects it


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


_library: ctypes.CDLL | None = None
_functions: dict[str, Callable[..., int]] = {}


def load() -> None:
    """Load the library."""
    global _library  # noqa: PLW0603  one library in a process, as there is one driver
    if _library is None:
        try:
            _library = ctypes.CDLL(_NAME)
        except OSError:
            raise NVMLError(NVML_ERROR_LIBRARY_NOT_FOUND) from None


def run(name: str, *args: object) -> None:
    """Make a call that returns nothing."""
    _check(_function(name)(*args))


def number(name: str, *args: object) -> int:
    """Return what a call returns through its last argument: 32 or 64 bits, the low ones first."""
    answer = c_ulonglong()
    status = (_functions.get(name) or _function(name))(*args, byref(answer))
    if status != NVML_SUCCESS:
        raise NVMLError(status)
    return answer.value


def two_numbers(name: str, handle: Handle) -> tuple[int, int]:
    """Return what a call returns through two arguments."""
    one, other = c_uint(), c_uint()
    _check(_function(name)(handle, byref(one), byref(other)))
    return one.value, other.value


def pointer(name: str, *args: object) -> Handle:
    """Return the pointer that a call returns."""
    found = c_void_p()
    _check(_function(name)(*args, byref(found)))
    return found


def text(name: str, *args: object) -> str:
    """Return the text that a call returns."""
    found = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(_function(name)(*args, found, c_uint(_TEXT_BYTES)))
    return found.value.decode()


def filled(name: str, struct: Any, *args: object) -> Any:
    """Return the struct that a call has filled."""
    _check(_function(name)(*args, byref(struct)))
    return struct


def processes(name: str, handle: Handle) -> list[ProcessInfo]:
    """Return a list of processes."""
    get, count, rows = _function(name), c_uint(_ROOM), _FEW_PROCESSES()
    answer = get(handle, byref(count), rows)
    if answer == NVML_ERROR_INSUFFICIENT_SIZE:
        count.value = count.value * 2 + _ROOM
        rows = (ProcessInfo * _bounded(count))()
        answer = get(handle, byref(count), rows)
    _check(answer)
    return rows[: count.value]


def samples(name: str, handle: Handle, since_us: int) -> list[Sample]:
    """Return the samples of utilization after that time."""
    get, since, kind = _function(name), c_ulonglong(since_us), NVML_GPU_UTILIZATION_SAMPLES
    form, count = c_uint(), c_uint()
    _check(get(handle, kind, since, byref(form), byref(count), None))
    rows = (Sample * _bounded(count))()
    _check(get(handle, kind, since, byref(form), byref(count), rows))
    return rows[: count.value]


def process_samples(name: str, handle: Handle, since_us: int) -> list[ProcessSample]:
    """Return what ran after that time."""
    get, since, count = _function(name), c_ulonglong(since_us), c_uint()
    answer = get(handle, None, byref(count), since)
    if answer != NVML_ERROR_INSUFFICIENT_SIZE:
        raise NVMLError(answer)
    rows = (ProcessSample * _bounded(count))()
    _check(get(handle, rows, byref(count), since))
    return rows[: count.value]


def _function(name: str) -> Callable[..., int]:
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
