"""fallow as a Python library, with the same functions as the command line."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.units import program_name, size_bytes
from fallow.engine.allocate import claim as claiming
from fallow.engine.allocate import pick as choosing
from fallow.engine.machine import observe
from fallow.engine.machine.world import World
from fallow.interfaces.render.gpu_names import environment
from fallow.policies.pick import Order, Wanted


class ClaimedGpus:
    """GPUs that this program has claimed: nobody else is given them until they are released."""

    def __init__(self, claimed: claiming.Claimed, variables: Mapping[str, str]) -> None:
        self._claimed = claimed
        self._before = {name: os.environ.get(name) for name in variables}
        self._is_released = False
        os.environ.update(variables)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs, also after they were released."""
        return self._claimed.gpus

    def release(self) -> None:
        """End the claim now, and restore the environment if it was set. Nothing happens the second time."""
        if self._is_released:
            return
        self._is_released = True
        for name, before in self._before.items():
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        for held in self._claimed.claims:
            held.end()

    def __enter__(self) -> tuple[Gpu, ...]:
        if self._is_released:
            raise WrongUsage("the claim was released", "claim GPUs again")
        return self.gpus

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        labels = ", ".join(gpu.label for gpu in self.gpus)
        return f"<ClaimedGpus {labels}{' (released)' if self._is_released else ''}>"


def gpus(*, simulate: str | None = None) -> list[GpuStatus]:
    """Return all GPUs of this machine now, each with its activity and its holders."""
    _demand("simulate", simulate, str, "a text such as '4xH100'")
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
    """Return idle GPUs, softly reserved for some seconds. Raises NotEnoughGpus.

    `max_util` and `max_mem_util` are ratios 0..1; `min_free` is a size with its unit, such as "40GiB".

    Without `n` it returns one GPU, or all of `gpus` where these are named.
    """
    limits = (max_util, max_mem_util, max_processes, min_free)
    request = _request(n, gpus, name, limits, order, wait_s, simulate)
    world = World(os.environ, simulate=simulate)
    try:
        return choosing.pick(world, request)
    finally:
        world.close()


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
    set_environment: bool = False,
    simulate: str | None = None,
) -> ClaimedGpus:
    """Claim GPUs now, until the `with` block ends or `release()` is called, or this process ends.

    Forked processes inherit the claim, which lasts as long as one of them lives; those that `subprocess` starts do
    so with close_fds=False. `set_environment`: let CUDA see only these GPUs meanwhile, if it has not begun yet.
    """
    limits = (max_util, max_mem_util, max_processes, min_free)
    request = _request(n, gpus, name, limits, order, wait_s, simulate, shared=shared)
    _demand("set_environment", set_environment, bool, "True or False")
    world = World(os.environ, simulate=simulate)
    try:
        program = program_name(sys.argv[0] or "python")
        claimed = claiming.claim(world, request, pid=os.getpid(), program=program)
    finally:
        world.close()
    for held in claimed.claims:
        held.hand_to_job()
    return ClaimedGpus(claimed, environment(claimed.gpus) if set_environment else {})


def watch(every: float = 1.0, *, simulate: str | None = None) -> Iterator[Status]:
    """Yield a status of all GPUs every so many seconds, forever, with the observed time of each activity."""
    _demand("simulate", simulate, str, "a text such as '4xH100'")
    _demand("every", every, (int, float), "a number of seconds", optional=False)
    if not 0 < every < inf:
        raise WrongUsage(f"every is {every!r}; give a number of seconds above 0")
    return _watched(every, simulate)


def _watched(every: float, simulate: str | None) -> Iterator[Status]:
    world = World(os.environ, simulate=simulate)
    try:
        yield from observe.watch(world, every)
    finally:
        world.close()


def _request(
    n: int | None,
    gpus: str | int | Sequence[int | str] | None,
    name: str | None,
    limits: tuple[float, float, int, str | int],
    order: str,
    wait_s: float | None,
    simulate: str | None,
    *,
    shared: bool = False,
) -> choosing.Request:
    """Return the request; raise TypeError or WrongUsage for a value that makes no sense."""
    max_util, max_mem_util, max_processes, min_free = limits
    _demand("n", n, int, "a whole number, or None")
    _demand("name", name, str, "a text")
    _demand("max_processes", max_processes, int, "a whole number", optional=False)
    _demand("min_free", min_free, (int, str), "a size with its unit, such as '20GiB'", optional=False)
    _demand("order", order, str, "a text", optional=False)
    _demand("wait_s", wait_s, (int, float), "a number of seconds, or None")
    _demand("simulate", simulate, str, "a text such as '4xH100'")
    _demand("shared", shared, bool, "True or False")
    if n is not None and n < 1:
        raise WrongUsage(f"n is {n}; give a whole number of at least 1")
    if order not in set(Order):
        raise WrongUsage(f"order is {order!r}; give one of {', '.join(Order)}")
    for what, share in (("max_util", max_util), ("max_mem_util", max_mem_util)):
        _demand(what, share, (int, float), "a number from 0 to 1", optional=False)
        if not 0 <= share <= 1:
            raise WrongUsage(f"{what} is {share!r}; give a ratio from 0 to 1, not per cent")
    for what, number in (("max_processes", max_processes), ("wait_s", wait_s)):
        if number is not None and not number >= 0:
            raise WrongUsage(f"{what} is {number!r}; give a number that is not negative")
    try:
        min_free_bytes = size_bytes(str(min_free))
    except WrongUsage as error:
        raise WrongUsage(f"min_free: {error.sentence}", error.way) from None
    wanted = Wanted(
        count=1 if n is None else n,
        name=name,
        max_utilization=max_util,
        max_memory_utilization=max_mem_util,
        max_processes=max_processes,
        min_free_bytes=min_free_bytes,
        order=Order(order),
        shared=shared,
    )
    return choosing.Request(wanted, _listed(gpus), n is None, wait_s)


def _listed(gpus: object) -> str | None:
    """Return a list of GPUs as the command line writes it, from any form that Python programs use."""
    if gpus is None or isinstance(gpus, str):
        return gpus
    words = [gpus] if isinstance(gpus, int) else gpus
    if not isinstance(words, Sequence) or not all(type(word) in (int, str) for word in words):
        raise TypeError(f"gpus is {gpus!r}; give indices or UUIDs: 0, '0,2', [0, 2]")
    if not words:
        raise WrongUsage("gpus is empty; name at least one GPU, or leave it out")
    return ",".join(map(str, words))


def _demand(name: str, given: object, kinds: type | tuple[type, ...], what: str, *, optional: bool = True) -> None:
    """Raise TypeError unless the value has one of these types. True and False do not count as numbers."""
    if given is None and optional:
        return
    if not isinstance(given, kinds) or (isinstance(given, bool) and kinds is not bool):
        raise TypeError(f"{name} is {given!r}, of type {type(given).__name__}; give {what}")
