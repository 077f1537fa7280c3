"""Check the arguments of a call before anything is looked at."""

from collections.abc import Sequence
from math import inf

from fallow.core.errors import WrongUsage
from fallow.core.units import size_bytes
from fallow.engine.allocate.search import Request
from fallow.policies.pick import Order, Wanted

Listed = str | int | Sequence[int | str] | None
"""GPUs as programs name them: 0, "0,2", [0, 2] or UUIDs; None means all, or any."""


def machine_of(simulate: str | None) -> str | None:
    """Return the simulated machine that is asked; None for the one that the environment names."""
    demand("simulate", simulate, str, "a text such as '4xH100'")
    return simulate


def request(
    n: int | None,
    gpus: Listed,
    name: str | None,
    limits: tuple[float, float, int, str | int],
    order: str,
    wait_s: float | None,
    *,
    shared: bool = False,
) -> Request:
    """Return the request; raise TypeError or WrongUsage for a value that makes no sense."""
    max_util, max_mem_util, max_processes, min_free = limits
    demand("n", n, int, "a whole number, or None")
    demand("name", name, str, "a text")
    demand("max_processes", max_processes, int, "a whole number", optional=False)
    demand("min_free", min_free, (int, str), "a size with its unit, such as '20GiB'", optional=False)
    demand("order", order, str, "a text", optional=False)
    demand("wait_s", wait_s, (int, float), "a number of seconds, or None")
    demand("shared", shared, bool, "True or False")
    if n is not None and n < 1:
        raise WrongUsage(f"n is {n}; give a whole number of at least 1")
    if order not in set(Order):
        raise WrongUsage(f"order is {order!r}; give one of {', '.join(Order)}")
    for what, share in (("max_util", max_util), ("max_mem_util", max_mem_util)):
        demand(what, share, (int, float), "a number from 0 to 1", optional=False)
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
    return Request(wanted, listed(gpus), n is None, wait_s)


def listed(gpus: object) -> str | None:
    """Return a list of GPUs as the command line writes it, from any form that Python programs use."""
    if gpus is None or isinstance(gpus, str):
        return gpus
    words = [gpus] if isinstance(gpus, int) else gpus
    if not isinstance(words, Sequence) or not all(type(word) in (int, str) for word in words):
        raise TypeError(f"gpus is {gpus!r}; give indices or UUIDs: 0, '0,2', [0, 2]")
    if not words:
        raise WrongUsage("gpus is empty; name at least one GPU, or leave it out")
    return ",".join(map(str, words))


def demand(name: str, given: object, kinds: type | tuple[type, ...], what: str, *, optional: bool = True) -> None:
    """Raise TypeError unless the value has one of these types. True and False do not count as numbers."""
    if given is None and optional:
        return
    if not isinstance(given, kinds) or (isinstance(given, bool) and kinds is not bool):
        raise TypeError(f"{name} is {given!r}, of type {type(given).__name__}; give {what}")


def seconds(name: str, given: object, *, least: float = 0.0, most: float = inf) -> float:
    """Return a number of seconds that makes sense."""
    demand(name, given, (int, float), "a number of seconds", optional=False)
    number = float(given) if isinstance(given, int | float) else 0.0
    if not least <= number < inf:
        raise WrongUsage(f"{name} is {given!r}; give a number of seconds {'above 0' if least else 'from 0'}")
    if number > most:
        raise WrongUsage(f"{name} is {given!r}; give {most:.0f} seconds at most")
    return number


def subject_of(given: object) -> str | None:
    """Return whom a call is about, as the command line writes it; a number is a GPU."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    raise TypeError(f"subject is {given!r}, of type {type(given).__name__}; give a GPU or a text such as 'pid:123'")


def texts(name: str, given: object) -> list[str]:
    """Return a text or several as a list."""
    words = [given] if isinstance(given, str) else given
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} is {given!r}, of type {type(given).__name__}; give a text, or a list of them")
    return list(words)
