"""The functions of `gpuselect`: they choose idle GPUs as `fallow pick` does, and set CUDA_VISIBLE_DEVICES."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.selection import visible
from fallow.core.unknown import Unknown
from fallow.engine.allocate.pick import pick
from fallow.engine.allocate.search import Request
from fallow.engine.machine.world import World
from fallow.policies.pick import Order, Wanted

logger = logging.getLogger("gpuselect")
CVD = "CUDA_VISIBLE_DEVICES"
_replaced: dict[str | None, str | None] = {}
"""The value of CUDA_VISIBLE_DEVICES that we set, with the one before it: only that one limits what we may choose."""


class GpuInfo(NamedTuple):
    """The readings of a GPU that a `selector` gets: utilization in per cent, memory in bytes, power in mW."""

    device: int
    name: str | None
    util: int | None
    mem_util: int | None
    processes: int | None
    mem_free: int | None
    mem_used: int | None
    mem_total: int | None
    performance_state: int | None
    power_usage: int | None
    temperature: int | None


_NEEDED = 8  # the first fields: a GPU with one of these unknown is not given to a selector
_STATUS = {"device": "device", "name": "name", "utilization": "util", "mem_utilization": "mem_util"}
_STATUS |= {key: key for key in ("processes", "performance_state", "power_usage", "temperature")}
"""The keys of `gpustatus`, each with its field of GpuInfo."""


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
    environ = dict(os.environ)
    now = environ.pop(CVD, None)
    outer = _replaced.get(now, now)
    world = World(environ if outer is None else {**environ, CVD: outer})
    try:
        request = request_for(world, count, devices, name, util, mem_util, processes, selector)
        chosen = by_device(pick_for(world, request))
    except NotEnoughGpus:
        if silent:
            return ""
        raise
    finally:
        world.close()
    if set_cvd:
        _replaced.clear()
        _replaced[chosen] = outer
        os.environ.update({CVD: chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})  # so that an index means the same GPU
    logger.debug(f"{CVD}={chosen}")
    return chosen


def gpustatus(only_cvd: bool = True) -> list[dict[str, int | str | None]]:
    """Return the state of the GPUs in CUDA_VISIBLE_DEVICES, or of all; an unknown reading is None."""
    world = World(os.environ)
    try:
        gpus = world.gpu_reader.look(Depth.ALL).gpus
    finally:
        world.close()
    shown = visible(world.visible_devices, gpus) if only_cvd else gpus
    return [{key: getattr(info, field) for key, field in _STATUS.items()} for info in map(_info, shown)]


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
    there = {gpu.index for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus}
    logger.debug(f"GPU count: {len(there)}")
    for device in listed:
        if device not in there:
            raise WrongUsage(f"Invalid device ID {device}")
    count = max(count, len(listed))
    if selector is not None:
        wanted = Wanted(count, None, 1.0, 1.0, sys.maxsize, order=Order.RANDOM)
        return Request(wanted, suits=lambda gpu: _suits(gpu, selector))
    wanted = Wanted(count, name, util / 100, mem_util / 100, processes, order=Order.RANDOM)
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


def by_device(gpus: Sequence[Gpu]) -> str:
    """Return device IDs as CUDA takes them: MIG instances by UUID only."""
    return ",".join(str(gpu.index if gpu.mig is None else gpu.uuid) for gpu in gpus)


def speak(*, debug: bool = False) -> None:
    """Log to stderr from INFO on, unless the calling program has configured the logger."""
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    if debug or logger.level == logging.NOTSET:
        logger.setLevel(logging.DEBUG if debug else logging.INFO)


def _suits(gpu: Gpu, selector: Callable[[GpuInfo], bool]) -> bool:
    info = _info(gpu)
    logger.debug(f"Device {gpu.label}: {info}")
    return None not in info[:_NEEDED] and bool(selector(info))


def _info(gpu: Gpu) -> GpuInfo:
    memory = None if isinstance(gpu.memory, Unknown) else gpu.memory
    return GpuInfo(
        device=gpu.index,
        name=None if isinstance(gpu.name, Unknown) else gpu.name,
        util=_scaled(gpu.utilization, 100),
        mem_util=_scaled(gpu.memory_utilization, 100),
        processes=None if isinstance(gpu.holders, Unknown) else len(gpu.holders),
        mem_free=memory.free_bytes if memory else None,
        mem_used=memory.used_bytes if memory else None,
        mem_total=memory.total_bytes if memory else None,
        performance_state=_scaled(gpu.performance_state),
        power_usage=_scaled(gpu.power_w, 1000),
        temperature=_scaled(gpu.temperature_c),
    )


def _scaled(reading: float | Unknown, scale: int = 1) -> int | None:
    return None if isinstance(reading, Unknown) else round(reading * scale)
