"""Calls below the Python binding, run in the reading process: null pointers, small buffers."""

import ctypes
import os
import pathlib
from ctypes import byref, c_uint, c_ulonglong
from typing import Any

import pynvml

HANDLE = "handle"
NULL = None


def use_world(path: str) -> None:
    os.environ["FALLOW_STANDIN_WORLD"] = path


def forget_world() -> None:
    os.environ.pop("FALLOW_STANDIN_WORLD", None)


def end() -> None:
    """Shut the library down as often as it was started."""
    try:
        while True:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        pass


def _function(name: str) -> Any:
    pynvml._LoadNvmlLibrary()
    return getattr(pynvml.nvmlLib, name)


def code(name: str, card: int | None, *args: Any) -> int:
    """Call a function on a card (or on none) with plain arguments; None is a null pointer."""
    handles = () if card is None else (pynvml.nvmlDeviceGetHandleByIndex(card),)
    return int(_function(name)(*handles, *args))


def code_on_handle(name: str, address: int | None) -> int:
    """Call a function that fills in one number, on whatever is given as the handle."""
    return int(_function(name)(ctypes.c_void_p(address), byref(c_uint())))


def text(name: str, card: int, room: int) -> tuple[int, str]:
    buffer = ctypes.create_string_buffer(256)
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    return _function(name)(handle, buffer, c_uint(room)), buffer.value.decode()


def process_list(name: str, card: int, room: int) -> tuple[int, int, list[int]]:
    count = c_uint(room)
    array = (pynvml.c_nvmlProcessInfo_v2_t * room)()
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    answer = _function(name)(handle, byref(count), array if room else None)
    return answer, count.value, [array[i].pid for i in range(min(room, count.value))]


class OldProcessInfo(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("memory", c_ulonglong)]


def old_process_list(card: int) -> list[tuple[int, int]]:
    count = c_uint(8)
    array = (OldProcessInfo * 8)()
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    answer = _function("nvmlDeviceGetComputeRunningProcesses")(handle, byref(count), array)
    assert answer == 0
    return [(array[i].pid, array[i].memory) for i in range(count.value)]


def versioned(name: str, card: int, struct: str, version: int) -> int:
    value = getattr(pynvml, struct)()
    value.version = version
    return int(_function(name)(pynvml.nvmlDeviceGetHandleByIndex(card), byref(value)))


def samples(card: int, kind: int, since: int, room: int | None) -> tuple[int, int, list[int]]:
    """Ask for samples; without room, only how much of it is needed."""
    count, kind_of_value = c_uint(room or 0), c_uint()
    array = (pynvml.c_nvmlSample_t * (room or 1))()
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    answer = _function("nvmlDeviceGetSamples")(
        handle,
        kind,
        c_ulonglong(since),
        byref(kind_of_value),
        byref(count),
        None if room is None else array,
    )
    filled = range(count.value if answer == 0 and room is not None else 0)
    return answer, count.value, [array[i].timeStamp for i in filled]


def process_utilization(card: int, room: int, since: int) -> tuple[int, int]:
    count = c_uint(room)
    array = (pynvml.c_nvmlProcessUtilizationSample_t * max(room, 1))()
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    answer = _function("nvmlDeviceGetProcessUtilization")(
        handle, array if room else None, byref(count), c_ulonglong(since)
    )
    return answer, count.value


def metrics(
    card: int, ids: list[int], gpu_instance: int | None = None, version: int = 1
) -> tuple[int, list[tuple[int, int, float]]]:
    """Two samples and what they say: (id, code, value) each."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(card)
    taken = []
    for _ in range(2):
        sample = pynvml.nvmlGpmSampleAlloc()
        if gpu_instance is None:
            pynvml.nvmlGpmSampleGet(handle, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(handle, gpu_instance, sample)
        taken.append(sample)
    get = pynvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics = version, len(ids)
    get.sample1, get.sample2 = taken
    for i, metric in enumerate(ids):
        get.metrics[i].metricId = metric
    answer = _function("nvmlGpmMetricsGet")(byref(get))
    result = [(m.metricId, m.nvmlReturn, m.value) for m in get.metrics[: len(ids)]]
    for sample in taken:
        pynvml.nvmlGpmSampleFree(sample)
    return answer, result


def one_sample_twice(card: int) -> int:
    sample = pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(pynvml.nvmlDeviceGetHandleByIndex(card), sample)
    get = pynvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics = 1, 1
    get.sample1 = get.sample2 = sample
    answer = int(_function("nvmlGpmMetricsGet")(byref(get)))
    pynvml.nvmlGpmSampleFree(sample)
    return answer


def _code(call: Any) -> int:
    try:
        call()
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def in_a_forked_child() -> list[int]:
    """What a child sees: before it starts the library, after, and on its parent's handle."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    child, inherited = os.pipe()
    pid = os.fork()
    if pid == 0:
        calls = (
            lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
            pynvml.nvmlInit,
            lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
            lambda: pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(0)),
        )
        os.write(inherited, bytes(_code(call) for call in calls))
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(inherited)
    with os.fdopen(child, "rb") as pipe:
        return list(pipe.read())


def without_write_access(path: str) -> int:
    """Count the cards as a user who may not write the world."""
    pid = os.fork()
    if pid == 0:
        if os.getuid() == 0:
            os.setuid(65534)
        use_world(path)
        pynvml.nvmlInit()
        os._exit(pynvml.nvmlDeviceGetCount())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def many_readers(readers: int, stop: str) -> list[int]:
    """Fork readers that look for torn lists until a file appears; their exit codes."""
    children = []
    for _ in range(readers):
        pid = os.fork()
        if pid == 0:
            os._exit(_look_for_torn_lists(pathlib.Path(stop)))
        children.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def _look_for_torn_lists(stop: pathlib.Path) -> int:
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not stop.exists():
            if len(set(pynvml.nvmlDeviceGetName(handle))) > 1:
                return 1
            try:
                found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except pynvml.NVMLError_InsufficientSize:
                continue  # the list grew between the binding's two calls
            pids = {p.pid for p in found}
            memory = {p.usedGpuMemory for p in found}
            if pids != memory or len(pids) > 1 or (found and len(found) != found[0].pid % 64 + 1):
                return 2
    except pynvml.NVMLError:
        return 3
    return 0
