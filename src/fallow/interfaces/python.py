"""fallow for Python programs: the same machinery as the command line."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.units import program_name, size_bytes
from fallow.engine.allocate import claim as claiming
from fallow.engine.allocate import pick as choosing
from fallow.engine.machine import observe
from fallow.engine.machine.world import World
from fallow.policies.pick import Order, Wanted


def gpus(*, simulate: str | None = None) -> list[GpuStatus]:
    """All GPUs of this machine now, each with what it does and who holds it."""
    world = World(os.environ, simulate=simulate)
    try:
        return list(observe.look_once(world).gpus)
    finally:
        world.close()


def pick(
    n: int | None = None,
    *,
    gpus: str | int | Sequence[int | str] | None = None,
    name: str | None = None,
    max_util: float = 0.0,
    max_mem_util: float = 0.0,
    max_processes: int = 0,
    min_free: str | int = 0,
    order: str = "best",
    wait_s: float | None = None,
    simulate: str | None = None,
) -> tuple[Gpu, ...]:
    """Idle GPUs, softly reserved for some seconds. Ratios are 0..1. Raises NotEnoughGpus.

    Without `n` it is one GPU, or all of `gpus` where these are named.
    """
    world = World(os.environ, simulate=simulate)
    wanted = _wanted(n, name, max_util, max_mem_util, max_processes, min_free, order, shared=False)
    try:
        return choosing.pick(world, choosing.Request(wanted, _listed(gpus), n is None, wait_s))
    finally:
        world.close()


@contextmanager
def claim(
    n: int | None = None,
    *,
    gpus: str | int | Sequence[int | str] | None = None,
    name: str | None = None,
    max_util: float = 0.0,
    max_mem_util: float = 0.0,
    max_processes: int = 0,
    min_free: str | int = 0,
    order: str = "best",
    wait_s: float | None = None,
    shared: bool = False,
    simulate: str | None = None,
) -> Iterator[tuple[Gpu, ...]]:
    """GPUs that nobody else is given inside the `with` block, nor after it while a process that inherited them lives.

    Forked processes inherit the claim; those that `subprocess` starts do so with close_fds=False.
    """
    world = World(os.environ, simulate=simulate)
    wanted = _wanted(n, name, max_util, max_mem_util, max_processes, min_free, order, shared=shared)
    request = choosing.Request(wanted, _listed(gpus), n is None, wait_s)
    try:
        program = program_name(sys.argv[0] or "python")
        claimed = claiming.claim(world, request, pid=os.getpid(), program=program, tell=lambda _: None)
    finally:
        world.close()
    for held in claimed.claims:
        held.hand_to_job()
    try:
        yield claimed.gpus
    finally:
        for held in claimed.claims:
            held.end()


def watch(every: float = 1.0, *, simulate: str | None = None) -> Iterator[Status]:
    """A sight of all GPUs every so many seconds, for ever, with the witnessed time of each activity."""
    world = World(os.environ, simulate=simulate)
    try:
        yield from observe.watch(world, every)
    finally:
        world.close()


def _wanted(
    n: int | None,
    name: str | None,
    max_util: float,
    max_mem_util: float,
    max_processes: int,
    min_free: str | int,
    order: str,
    *,
    shared: bool,
) -> Wanted:
    if n is not None and (type(n) is not int or n < 1):
        raise WrongUsage(f"{n!r} is no count of GPUs; give a whole number of at least 1")
    if order not in set(Order):
        raise WrongUsage(f"{order!r} is no order; give one of {', '.join(Order)}")
    for share in (max_util, max_mem_util):
        if not 0 <= share <= 1:
            raise WrongUsage(f"{share!r} is no ratio; utilization is 0..1 here, not per cent")
    return Wanted(
        count=1 if n is None else n,
        name=name,
        max_utilization=max_util,
        max_memory_utilization=max_mem_util,
        max_processes=max_processes,
        min_free_bytes=size_bytes(min_free) if isinstance(min_free, str) else min_free,
        order=Order(order),
        shared=shared,
    )


def _listed(gpus: str | int | Sequence[int | str] | None) -> str | None:
    """A list of GPUs in each form that Python people write it in."""
    if gpus is None or isinstance(gpus, str):
        return gpus
    return str(gpus) if isinstance(gpus, int) else ",".join(str(gpu) for gpu in gpus)
