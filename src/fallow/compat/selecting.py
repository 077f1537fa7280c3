"""The functions of `gpuselect`: they choose idle GPUs as `fallow pick` does, and set CUDA_VISIBLE_DEVICES."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.selection import visible
from fallow.core.unknown import Unknown
from fallow.engine.allocate.pick import Request, pick
from fallow.engine.machine.world import World
from fallow.policies.pick import Order, Wanted

logger = logging.getLogger("gpuselect")
CVD = "CUDA_VISIBLE_DEVICES"


class GpuInfo(NamedTuple):
    """The readings of a GPU that a `selector` gets: utilization in per cent, memory in bytes, power in mW."""

    device: int
    name: str
    util: int
    mem_util: int
    processes: int
    mem_free: int
    mem_used: int
    mem_total: int
    performance_state: int | None
    power_usage: int | None
    temperature: int | None


_NEEDED = 8  # the first fields: a GPU with one of these unknown is not given to a selector
_STATUS = ("device", "name", "util", "mem_util", "processes", "performance_state", "power_usage", "temperature")
_STATUS_CALLS = {"util": "utilization", "mem_util": "mem_utilization"}


def gpuselect(
    count: int = 1,
    devices: int | Sequence[int] | None = None,
    name: str | None = None,
    util: int = 0,
    mem_util: int = 0,
    processes: int = 0,
    selector: Callable[[GpuInfo], bool] | None = None,
    silent: bool = False,
    set_cvd: bool = True,
) -> str:
    """Choose idle GPUs at random and set CUDA_VISIBLE_DEVICES to them; return its new value.

    If there are too few, raise an exception, or return "" if `silent`.
    """
    speak()
    world = World(_allocation.outer())
    try:
        request = request_for(world, count, devices, name, util, mem_util, processes, selector)
        gpus = pick_for(world, request)
    except NotEnoughGpus:
        if silent:
            return ""
        raise
    finally:
        world.close()
    if set_cvd:
        _allocation.set(by_device(gpus))
    logger.debug(f"{CVD}={by_device(gpus)}")
    return by_device(gpus)


def gpustatus(only_cvd: bool = True) -> list[dict[str, int | str | None]]:
    """Return the state of the GPUs in CUDA_VISIBLE_DEVICES, or of all; an unknown reading is None."""
    world = World(os.environ)
    try:
        gpus = world.gpu_reader.look(Depth.ALL).gpus
    finally:
        world.close()
    shown = visible(world.visible_devices, gpus) if only_cvd else gpus
    return [{_STATUS_CALLS.get(field, field): _facts(gpu)[field] for field in _STATUS} for gpu in shown]


class _Allocation:
    """The CUDA_VISIBLE_DEVICES that we set, and the one before: only that one limits what we may choose."""

    def __init__(self) -> None:
        self._outer: str | None = None
        self._ours: str | None = None

    def outer(self) -> dict[str, str]:
        """Return the environment without our own change to it."""
        environ = dict(os.environ)
        now = environ.pop(CVD, None)
        if now is None or now != self._ours:
            self._outer = now
        return environ if self._outer is None else {**environ, CVD: self._outer}

    def set(self, devices: str) -> None:
        """Let CUDA see these devices; in PCI order, so that an index means the same GPU."""
        self._ours = devices
        os.environ.update({CVD: devices, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


_allocation = _Allocation()


def request_for(
    world: World,
    count: int,
    devices: int | Sequence[int] | None,
    name: str | None,
    util: int,
    mem_util: int,
    processes: int,
    selector: Callable[[GpuInfo], bool] | None = None,
) -> Request:
    """Check the old tool's parameters, and return them as a request."""
    listed = [devices] if isinstance(devices, int) else sorted(set(devices or ()))
    if count < 1:
        raise WrongUsage("GPU count must be >= 1")
    if listed and name is not None:
        raise WrongUsage("Use only one of 'devices' and 'name' parameters")
    if min(util, mem_util, processes) < 0:
        raise WrongUsage("Utilization/process count thresholds must be >= 0")
    logger.debug(f"count={count},devices={devices},name={name},util={util},mem_util={mem_util},processes={processes}")
    gpus = world.gpu_reader.look(Depth.HOLDERS).gpus
    logger.debug(f"GPU count: {len(gpus)}")
    for device in listed:
        if all(gpu.index != device for gpu in gpus):
            raise WrongUsage(f"Invalid device ID {device}")
    count = max(count, len(listed))
    wanted = Wanted(count, name, util / 100, mem_util / 100, processes, order=Order.RANDOM)
    if selector is not None:
        wanted = Wanted(count, None, 1.0, 1.0, sys.maxsize, order=Order.RANDOM)
        return Request(wanted, suits=lambda gpu: _suits(gpu, selector))
    return Request(wanted, ",".join(map(str, listed)) or None)


def pick_for(world: World, request: Request) -> tuple[Gpu, ...]:
    """Pick GPUs as `fallow pick` does; raise NotEnoughGpus also if the machine has too few at all."""
    try:
        return pick(world, request, logger.warning)
    except WrongUsage as error:
        raise NotEnoughGpus(str(error)) from None
    except NotEnoughGpus as error:
        for label, why in error.refused.items():
            logger.debug(f"Device {label}: {why}")
        raise


def _suits(gpu: Gpu, selector: Callable[[GpuInfo], bool]) -> bool:
    info = GpuInfo(**_facts(gpu))
    logger.debug(f"Device {gpu.label}: {info}")
    return None not in info[:_NEEDED] and bool(selector(info))


def _facts(gpu: Gpu) -> dict[str, Any]:
    """Return the fields of GpuInfo; an unknown reading is None."""
    memory, holders = gpu.memory, gpu.holders
    facts = {
        "device": gpu.index,
        "name": gpu.name,
        "util": _scaled(gpu.utilization, 100),
        "mem_util": _scaled(gpu.memory_utilization, 100),
        "processes": holders if isinstance(holders, Unknown) else len(holders),
        "mem_free": memory if isinstance(memory, Unknown) else memory.free_bytes,
        "mem_used": memory if isinstance(memory, Unknown) else memory.used_bytes,
        "mem_total": memory if isinstance(memory, Unknown) else memory.total_bytes,
        "performance_state": gpu.performance_state,
        "power_usage": _scaled(gpu.power_w, 1000),
        "temperature": gpu.temperature_c,
    }
    return {field: None if isinstance(fact, Unknown) else fact for field, fact in facts.items()}


def _scaled(reading: float | Unknown, scale: int) -> int | Unknown:
    return reading if isinstance(reading, Unknown) else round(reading * scale)


def by_device(gpus: Sequence[Gpu]) -> str:
    """Return device IDs as CUDA takes them: MIG instances by UUID only."""
    return ",".join(str(gpu.index if gpu.mig is None else gpu.uuid) for gpu in gpus)


def speak(*, debug: bool = False) -> None:
    """Log to stderr from INFO on, unless the calling program has configured the logger."""
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    if debug or logger.level == logging.NOTSET:
        logger.setLevel(logging.DEBUG if debug else logging.INFO)
