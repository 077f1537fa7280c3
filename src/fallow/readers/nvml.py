"""The only file that calls the driver's library: NVIDIA's calls, their quirks, and what their errors mean.

Each value alone may be Unknown. Errors mean different things, and are distinguished here:

    NOT_SUPPORTED         the GPU does not have this                   -> Unknown; the GPU is fine
    NO_PERMISSION         the driver does not permit it                -> Unknown; the GPU is fine
    FUNCTION_NOT_FOUND    the driver is older than the call            -> Unknown; the GPU is fine
    NOT_FOUND             nothing happened since the last look         -> none, which is a fact
    GPU_IS_LOST, RESET    the GPU is off the bus or needs a reset      -> trouble: nothing of it is trusted
    anything else         the driver does not know                     -> Unknown, with its message
"""

from collections.abc import Callable, Sequence
from math import isnan

from fallow.core.annotations import Any
from fallow.core.errors import NoDriver
from fallow.core.gpu import NEEDS_TWO_LOOKS, Counters, Holder, Memory, Recent
from fallow.core.unknown import Unknown
from fallow.readers import nvml_library as library
from fallow.readers.call_pool import AboutTo

OPENING_TAKES = 10.0  # times the limit of a plain call: a GPU without persistence mode takes seconds to wake up
Handle = Any
"""A value of the driver: a pointer, a struct, a number."""

_NOT_SUPPORTED = Unknown("the GPU does not support it")
_TOO_OLD = Unknown("the driver is too old for it")
_MEANING = {
    library.NVML_ERROR_NOT_SUPPORTED: _NOT_SUPPORTED,
    library.NVML_ERROR_NO_PERMISSION: Unknown("the driver does not permit it"),
    library.NVML_ERROR_FUNCTION_NOT_FOUND: _TOO_OLD,
}
_TROUBLE = {
    library.NVML_ERROR_GPU_IS_LOST: "the GPU is lost: it has fallen off the bus",
    library.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset",
}
_NO_DRIVER = {
    library.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver here (libnvidia-ml.so.1 is not found)",
    library.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    library.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA driver and its library have different versions; "
    "reload the driver or reboot",
    library.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver does not let this user in",
}
_THROTTLES = (  # bit by bit, from 0x02 on
    "application clocks,power cap,hardware slowdown,sync boost,software thermal,hardware thermal,power brake,"
    "display clocks"
)
_THROTTLED_BY = {2 << at: name for at, name in enumerate(_THROTTLES.split(","))}
_NVLINK = 100
_ONE_BOARD = 60  # the driver counts up from 0 for two GPUs on one board to 50 for two that share a system
_FLOOR_BYTES = 64 * 2**20  # an empty GPU uses some MiB for the driver; a CUDA context takes more
_GPM_METRICS = (
    *(library.NVML_GPM_METRIC_SM_UTIL, library.NVML_GPM_METRIC_SM_OCCUPANCY),
    *(library.NVML_GPM_METRIC_ANY_TENSOR_UTIL, library.NVML_GPM_METRIC_DRAM_BW_UTIL),
    *(library.NVML_GPM_METRIC_PCIE_RX_PER_SEC, library.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    *(library.NVML_GPM_METRIC_FP64_UTIL, library.NVML_GPM_METRIC_FP32_UTIL, library.NVML_GPM_METRIC_FP16_UTIL),
)
_GPM_SCALES = (0.01,) * 4 + (2.0**20,) * 2 + (0.01,) * 3  # per cent and MiB, in the order of the metrics
_COUNTED = ("counters", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
_UNCOUNTED = Unknown("the GPU does not count it")
_NO_COUNTERS = Unknown("the GPU has no such counters (Hopper and newer have them)")
_COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
_PROCESS_LISTS = (
    _COMPUTE,
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)
_NOT_BY_PROCESS = Unknown("the driver does not report memory by process")
_NO_NEW_SAMPLE = Unknown("the driver has no sample since the last look")


class CardInTrouble(Exception):
    """No reading of the GPU can be trusted."""


class Ask:
    """Calls the driver: announces each call before it is made, and turns its error into what it means."""

    __slots__ = ("_about_to",)

    def __init__(self, about_to: AboutTo) -> None:
        self._about_to = about_to

    def __call__(
        self,
        name: str,
        call: Callable[..., Any],
        *args: object,
        not_found: object = None,
        of_card: bool = True,
        takes: float = 1.0,
    ) -> Handle:
        self._about_to(name, takes)
        try:
            return call(name, *args)
        except library.NVMLError as error:
            if error.value in _TROUBLE and of_card:
                raise CardInTrouble(_TROUBLE[error.value]) from None
            if error.value == library.NVML_ERROR_NOT_FOUND and not_found is not None:
                return not_found
            known = _MEANING.get(error.value)
            return known if known is not None else Unknown(f"the driver answered '{error}' to {name}")
        except Exception as error:  # noqa: BLE001  an answer that the binding cannot read costs only that reading
            return Unknown(f"the driver's answer to {name} makes no sense ({type(error).__name__})")


Reading = Callable[[Ask, Handle], Any]


def connect(about_to: AboutTo) -> int:
    """Start NVML and return the number of GPUs; raise NoDriver, with what to do, if there is no driver."""
    about_to("nvmlInit", OPENING_TAKES)
    try:
        library.load()
        library.run("nvmlInit_v2")
    except library.NVMLError as error:
        raise NoDriver(_NO_DRIVER.get(error.value) or f"the NVIDIA driver does not start: {error}") from None
    about_to("nvmlDeviceGetCount", OPENING_TAKES)
    try:
        if count := library.number("nvmlDeviceGetCount_v2"):
            return count
        why = "the NVIDIA driver is here and has no GPU"
    except library.NVMLError as error:
        why = f"the NVIDIA driver cannot count its GPUs: {error}"
    disconnect(about_to)
    raise NoDriver(why)


def disconnect(about_to: AboutTo) -> None:
    """Shut NVML down."""
    about_to("nvmlShutdown")
    try:
        library.run("nvmlShutdown")
    except library.NVMLError:
        return  # the driver is gone already


def versions(about_to: AboutTo) -> tuple[str | Unknown, int | Unknown]:
    """Return the versions of the driver and of the newest CUDA that it supports: 12080 is 12.8."""
    ask = Ask(about_to)
    driver = ask("nvmlSystemGetDriverVersion", library.text, of_card=False)
    return driver, ask("nvmlSystemGetCudaDriverVersion_v2", library.number, of_card=False)


def handle_of_card(ask: Ask, index: int) -> Handle:
    """Return the driver's handle of a GPU, or Unknown."""
    return ask("nvmlDeviceGetHandleByIndex_v2", library.pointer, index, takes=OPENING_TAKES)


def mig_handles(ask: Ask, handle: Handle) -> dict[int, Any] | None:
    """Return the handles of the MIG instances by slot; None if the GPU is not in MIG mode."""
    mode = ask("nvmlDeviceGetMigMode", library.two_numbers, handle)
    if isinstance(mode, Unknown):
        if mode in (_NOT_SUPPORTED, _TOO_OLD):
            return None
        raise CardInTrouble(f"whether it is in MIG mode is {mode}")
    if mode[0] != library.NVML_DEVICE_MIG_ENABLE:
        return None
    slots = ask("nvmlDeviceGetMaxMigDeviceCount", library.number, handle)
    if isinstance(slots, Unknown):
        raise CardInTrouble(f"how many MIG instances it has is {slots}")
    hole = Unknown("an empty slot")
    name = "nvmlDeviceGetMigDeviceHandleByIndex"
    found = {slot: ask(name, library.pointer, handle, slot, not_found=hole) for slot in range(slots)}
    return {slot: instance for slot, instance in found.items() if instance is not hole}


def identity(ask: Ask, handle: Handle) -> dict[str, Any]:
    """Return what never changes of a device."""
    uuid, name = (ask(call, library.text, handle) for call in ("nvmlDeviceGetUUID", "nvmlDeviceGetName"))
    return {"uuid": uuid, "name": name}


def utilization(ask: Ask, handle: Handle) -> dict[str, Any]:
    """Return utilization and memory traffic at one instant."""
    rates = ask("nvmlDeviceGetUtilizationRates", library.filled, library.Utilization(), handle)
    if isinstance(rates, Unknown):
        return {"utilization": rates, "memory_utilization": rates}
    return {"utilization": rates.gpu / 100, "memory_utilization": rates.memory / 100}


def memory(ask: Ask, handle: Handle) -> Memory | Unknown:
    """Return memory in use, without the firmware's share."""
    info = ask("nvmlDeviceGetMemoryInfo_v2", library.filled, library.MemoryInfo(library.nvmlMemory_v2), handle)
    return info if isinstance(info, Unknown) else Memory(info.total, info.used, info.free, _FLOOR_BYTES)


def holders(ask: Ask, handle: Handle) -> tuple[Holder, ...] | Unknown:
    """Return all processes on the device. A kind of process that it does not support has none, except compute."""
    found: dict[int, Holder] = {}
    for name in _PROCESS_LISTS:
        listed = ask(name, library.processes, handle)
        if name != _COMPUTE and listed in (_NOT_SUPPORTED, _TOO_OLD):
            continue
        if isinstance(listed, Unknown):
            return listed
        for process in listed:
            used = process.usedGpuMemory
            found.setdefault(process.pid, Holder(process.pid, _NOT_BY_PROCESS if used is None else used))
    return tuple(found.values())


def clocks(ask: Ask, handle: Handle) -> dict[str, Any]:
    """Return clocks, throttle reasons and the performance state."""
    state = ask("nvmlDeviceGetPerformanceState", library.number, handle)
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", library.number, handle)
    if not isinstance(reasons, Unknown):
        reasons = tuple(name for bit, name in _THROTTLED_BY.items() if reasons & bit)
    return {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", library.number, handle, library.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", library.number, handle, library.NVML_CLOCK_MEM),
        "throttled_by": reasons,
        "performance_state": Unknown("the driver does not tell") if state == library.NVML_PSTATE_UNKNOWN else state,
    }


def pcie(ask: Ask, handle: Handle) -> dict[str, Any]:
    """Return traffic on the bus. Each call takes 20 ms, so it is made only when it matters."""
    ways = (library.NVML_PCIE_UTIL_RX_BYTES, library.NVML_PCIE_UTIL_TX_BYTES)
    rx, tx = (_scaled(ask("nvmlDeviceGetPcieThroughput", library.number, handle, way), 1024) for way in ways)
    return {"pcie_rx_bytes_per_s": rx, "pcie_tx_bytes_per_s": tx}


def _reading(name: str, *args: object, scale: float = 1) -> Reading:
    return lambda ask, handle: _scaled(ask(name, library.number, handle, *args), scale)


instance_id = _reading("nvmlDeviceGetGpuInstanceId")  # of the GPU instance that a MIG device belongs to
minor = _reading("nvmlDeviceGetMinorNumber")  # the N of /dev/nvidiaN, which may differ from the index
temperature_c = _reading("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU)
power_w = _reading("nvmlDeviceGetPowerUsage", scale=0.001)
power_limit_w = _reading("nvmlDeviceGetEnforcedPowerLimit", scale=0.001)


class History:
    """The samples of one GPU since the last look."""

    def __init__(self) -> None:
        self._seen_us = 0
        self._processes_seen_us = 0

    def recent(self, ask: Ask, handle: Handle) -> Recent | Unknown:
        """Return utilization samples since the last look; at the first one, all that the driver kept (about 14 s)."""
        since = self._seen_us
        answer = ask("nvmlDeviceGetSamples", library.samples, handle, since, not_found=_NO_NEW_SAMPLE)
        if isinstance(answer, Unknown):
            return answer
        samples = [sample for sample in answer if sample.timeStamp > since]
        if not samples:
            return _NO_NEW_SAMPLE
        self._seen_us = max(sample.timeStamp for sample in samples)
        first = since or min(sample.timeStamp for sample in samples)
        values = [sample.sampleValue.uiVal / 100 for sample in samples]
        return Recent((self._seen_us - first) / 1e6, sum(values) / len(values), max(values))

    def by_process(
        self, ask: Ask, handle: Handle, found: Sequence[Holder], *, sampled: bool
    ) -> dict[int, float | Unknown]:
        """Return how much of the time each holder ran.

        NOT_FOUND means that none did if the driver has `sampled` since the last look, else that it has not.
        """
        nobody = () if sampled else _NO_NEW_SAMPLE
        name, since = "nvmlDeviceGetProcessUtilization", self._processes_seen_us
        samples = ask(name, library.process_samples, handle, since, not_found=nobody)
        if isinstance(samples, Unknown):
            return {holder.pid: samples for holder in found}
        ran: dict[int, float | Unknown] = {holder.pid: 0.0 for holder in found}
        for sample in samples:
            self._processes_seen_us = max(self._processes_seen_us, sample.timeStamp)
            before = ran.get(sample.pid)
            # Some drivers leave values above 100 in slots that they did not fill.
            if isinstance(before, float) and sample.smUtil <= 100:
                ran[sample.pid] = max(before, _worked(sample))
        return ran


def _worked(sample: library.ProcessSample) -> float:
    """Return the most that a process did of one kind: kernels, memory traffic, encoding or decoding of video."""
    done = (sample.smUtil, sample.memUtil, sample.encUtil, sample.decUtil)
    return float(max(share for share in done if share <= 100)) / 100


class HardwareCounters:
    """The hardware counters (GPM) of Hopper and newer: what the GPU did between two looks."""

    def __init__(self) -> None:
        self._request: Handle = None
        self._samples: list[Handle] = []
        self._has_one = False
        """Whether the last look took a sample."""

    def read(self, ask: Ask, handle: Handle, gpu_instance: int | None) -> dict[str, Any]:
        """Return the counters; for a MIG instance `handle` is that of its card and `gpu_instance` its id."""
        missing = self._prepare(ask, handle) if not self._samples else None
        if missing is None:
            missing = self._take(ask, handle, gpu_instance)
        return self._between(ask) if missing is None else dict.fromkeys(_COUNTED, missing)

    def _prepare(self, ask: Ask, handle: Handle) -> Unknown | None:
        asked = library.GpmSupport(library.NVML_GPM_SUPPORT_VERSION)
        support = ask("nvmlGpmQueryDeviceSupport", library.filled, asked, handle)
        if isinstance(support, Unknown):
            return support
        if not support.isSupportedDevice:
            return _NO_COUNTERS
        pair = [ask("nvmlGpmSampleAlloc", library.pointer, of_card=False) for _ in range(2)]
        for sample in pair:
            if isinstance(sample, Unknown):
                return sample
        self._samples = pair
        self._request = library.c_nvmlGpmMetricsGet_t(library.NVML_GPM_METRICS_GET_VERSION, len(_GPM_METRICS))
        for slot, metric in enumerate(_GPM_METRICS):
            self._request.metrics[slot].metricId = metric
        return None

    def _take(self, ask: Ask, handle: Handle, gpu_instance: int | None) -> Unknown | None:
        self._samples.reverse()
        latest = self._samples[1]
        if gpu_instance is None:
            taken = ask("nvmlGpmSampleGet", library.run, handle, latest)
        else:
            taken = ask("nvmlGpmMigSampleGet", library.run, handle, gpu_instance, latest)
        had_one, self._has_one = self._has_one, not isinstance(taken, Unknown)
        if isinstance(taken, Unknown):
            return taken
        return None if had_one else NEEDS_TWO_LOOKS

    def _between(self, ask: Ask) -> dict[str, Any]:
        self._request.sample1, self._request.sample2 = self._samples
        answer = ask("nvmlGpmMetricsGet", library.filled, self._request, of_card=False)
        if isinstance(answer, Unknown):
            return dict.fromkeys(_COUNTED, answer)
        metrics = zip(self._request.metrics[: len(_GPM_SCALES)], _GPM_SCALES, strict=True)
        sm, occupancy, tensor, dram, rx, tx, *units = (_counted(metric, scale) for metric, scale in metrics)
        counters = Counters(sm, occupancy, tensor, dram, _most(units))
        return dict(zip(_COUNTED, (counters, rx, tx), strict=True))


def _counted(metric: Handle, scale: float) -> float | Unknown:
    told = metric.nvmlReturn == library.NVML_SUCCESS and not isnan(metric.value)
    return metric.value * scale if told else _UNCOUNTED


def _most(units: Sequence[float | Unknown]) -> float | Unknown:
    return max((each for each in units if not isinstance(each, Unknown)), default=units[0])


def _scaled(value: float | Unknown, scale: float) -> float | Unknown:
    return value if isinstance(value, Unknown) else value * scale


def nearness(ask: Ask, one: Handle, other: Handle) -> int | None:
    """Return how well two GPUs are connected: by NVLink, else by how far above them they have a common ancestor."""
    status = ask("nvmlDeviceGetP2PStatus", library.number, one, other, library.NVML_P2P_CAPS_INDEX_NVLINK)
    if status == library.NVML_P2P_STATUS_OK:
        return _NVLINK
    level = ask("nvmlDeviceGetTopologyCommonAncestor", library.number, one, other)
    return None if isinstance(level, Unknown) else _ONE_BOARD - level
