"""Choose GPUs for a launch: refuse those that do not fit, rank the rest, take the first.

A GPU is refused for the first of these that holds, and the reason is kept:

    not in the list or not visible -> its claim file is not fit -> not of that name -> in trouble
    -> a reading is missing -> claimed -> others wait for it -> too many processes
    -> memory held by no visible process -> too busy -> too much memory traffic -> too little free memory

A GPU with an unknown reading is never given, whatever the limits are, also not to share. The rest is ranked, and the
first are given: those without a recent pick before those with one, then empty before filled. Both only rank.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from math import comb

from fallow.core.activity import load_now, unseen_memory_bytes
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth, Links
from fallow.core.reasons import Reason
from fallow.core.reservations import NOTHING_RESERVED, Reservations
from fallow.core.unknown import Unknown, known
from fallow.core.value import value

_MOST_COMBINATIONS = 5000
_MEMORY_STEP_BYTES = 2**30  # less than this apart counts as the same amount of free memory
_WARMTH_STEP_C = 5


class Order(StrEnum):
    """How the GPUs that fit are ranked."""

    BEST = "best"
    RANDOM = "random"
    INDEX = "index"


@value
class Wanted:
    """What a launch needs. Ratios are 0..1."""

    count: int = 1
    name: str | None = None
    max_utilization: float = 0.0
    max_memory_utilization: float = 0.0
    max_processes: int = 0
    min_free_bytes: int = 0
    order: Order = Order.BEST
    shared: bool = False


@value
class Choice:
    """The GPUs given, or none; why each of the others was refused, by label."""

    gpus: tuple[Gpu, ...]
    refused: Mapping[str, Reason]


def eligible(gpu: Gpu, wanted: Wanted) -> bool:
    """Return whether this GPU could ever fit, whatever runs on it now: a launch waits only for such GPUs."""
    large_enough = isinstance(gpu.memory, Unknown) or gpu.memory.total_bytes >= wanted.min_free_bytes
    right_name = isinstance(gpu.name, Unknown) or (wanted.name or "").lower() in gpu.name.lower()
    return large_enough and right_name  # what is unknown now may fit later


def depth_needed(wanted: Wanted) -> Depth:
    """Return how much to read: a GPU that others may hold is judged by its last seconds, not by an instant."""
    return Depth.ALL if wanted.max_processes or wanted.shared else Depth.HOLDERS


def choose(
    candidates: Sequence[Gpu],
    wanted: Wanted,
    reservations: Mapping[str, Reservations],
    links: Links,
    chance: Callable[[], int],
) -> Choice:
    """Return `wanted.count` of the candidates, or none, and why the others were refused."""
    refused: dict[str, Reason] = {}
    fitting: list[Gpu] = []
    for gpu in candidates:
        reserved = reservations.get(gpu.uuid, NOTHING_RESERVED) if isinstance(gpu.uuid, str) else NOTHING_RESERVED
        why = refusal(gpu, wanted, reserved)
        if why is None:
            fitting.append(gpu)
        else:
            refused[gpu.label] = why
    if len(fitting) < wanted.count:
        return Choice((), refused)
    ranked = _ranked(fitting, wanted.order, reservations, chance)
    if wanted.order is Order.BEST and 1 < wanted.count < len(ranked):
        ranked = _best_connected(ranked, wanted.count, reservations, links)
    given = sorted(ranked[: wanted.count], key=_place)
    return Choice(tuple(given), refused)


def refusal(gpu: Gpu, wanted: Wanted, reserved: Reservations) -> Reason | None:
    """Return the first reason not to give this GPU, or None."""
    return next(_reasons(gpu, wanted, reserved), None)


def _reasons(gpu: Gpu, wanted: Wanted, reserved: Reservations) -> Iterator[Reason]:
    claim, memory = reserved.claim, gpu.memory
    if wanted.name is not None:
        yield from _not_known("its name", gpu.name)
        if isinstance(gpu.name, str) and wanted.name.lower() not in gpu.name.lower():
            yield Reason("other_name", name=gpu.name)
    if gpu.trouble is not None:
        yield Reason("trouble", trouble=gpu.trouble)
    yield from _not_known("its UUID", gpu.uuid)
    if claim is not None and not (wanted.shared and claim.shared):
        yield Reason("taken", claim=str(claim))
    if reserved.ahead is not None:
        yield Reason("in_line")
    yield from _not_known("who holds it", gpu.holders)
    yield from _not_known("its memory", memory)
    if claim is None:  # a launch that shares expects others: their processes do not count against the GPU
        yield from _held(gpu, wanted)
    yield from _not_known("its utilization", load_now(gpu))
    if gpu.mig is None:
        yield from _not_known("its memory traffic", gpu.memory_utilization)
    if claim is None:
        load, traffic = known(load_now(gpu), 1.0), known(gpu.memory_utilization, 0.0)
        if load > wanted.max_utilization:
            yield Reason("too_busy", what="utilization", load=load, most=wanted.max_utilization)
        if traffic > wanted.max_memory_utilization:
            yield Reason("too_busy", what="memory traffic", load=traffic, most=wanted.max_memory_utilization)
    if not isinstance(memory, Unknown) and memory.free_bytes < wanted.min_free_bytes:
        yield Reason("too_little_memory", free_bytes=memory.free_bytes, needed_bytes=wanted.min_free_bytes)


def _not_known(what: str, reading: object) -> Iterator[Reason]:
    """Refuse a GPU of which a reading is missing."""
    if isinstance(reading, Unknown):
        yield Reason("reading_unknown", reading=what, why=reading.why)


def _held(gpu: Gpu, wanted: Wanted) -> Iterator[Reason]:
    """Refuse a GPU that too many hold; memory without a visible holder counts as one process more."""
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    if len(holders) > wanted.max_processes:
        pids = ", ".join(str(holder.pid) for holder in holders[:4])
        more = f" and {len(holders) - 4} more" if len(holders) > 4 else ""
        yield Reason("held", holders=f"pid {pids}{more}")
    if len(holders) == wanted.max_processes:
        unseen = unseen_memory_bytes(gpu)
        yield from _not_known("its memory", unseen)
        if not isinstance(unseen, Unknown) and unseen:
            yield Reason("unseen_memory", unseen_bytes=unseen)


def _ranked(
    gpus: Sequence[Gpu], order: Order, reservations: Mapping[str, Reservations], chance: Callable[[], int]
) -> list[Gpu]:
    def merit(gpu: Gpu) -> tuple[int, ...]:
        first = _rank(gpu, reservations)
        match order:
            case Order.INDEX:
                return (*first, *_place(gpu))
            case Order.RANDOM:
                return (*first, chance())
            case Order.BEST:
                return (*first, -_free_steps(gpu), _warmth_steps(gpu), chance())

    return sorted(gpus, key=merit)


def _best_connected(
    ranked: Sequence[Gpu], count: int, reservations: Mapping[str, Reservations], links: Links
) -> list[Gpu]:
    """Return the best connected group; of several such, the one whose members rank first."""

    def nearness(group: Iterable[Gpu]) -> tuple[int, int]:
        pairs = [links.get(frozenset((str(a.uuid), str(b.uuid))), 0) for a, b in combinations(group, 2)]
        return (min(pairs), sum(pairs))

    def merit(group: Iterable[Gpu]) -> tuple[int, ...]:
        group = tuple(group)
        ranks = zip(*(_rank(gpu, reservations) for gpu in group), strict=True)
        return (*(-sum(each) for each in ranks), *nearness(group))

    if comb(len(ranked), count) <= _MOST_COMBINATIONS:
        return list(max(combinations(ranked, count), key=merit))
    groups = [_grown(seed, ranked, count, merit) for seed in ranked]
    return list(max(groups, key=merit))


def _grown(
    seed: Gpu, ranked: Sequence[Gpu], count: int, merit: Callable[[Iterable[Gpu]], tuple[int, ...]]
) -> list[Gpu]:
    """Return a group grown from one GPU by the best neighbour, if trying all groups would take too long."""
    group = [seed]
    while len(group) < count:
        rest = [gpu for gpu in ranked if gpu not in group]
        group.append(max(rest, key=lambda gpu: merit([*group, gpu])))
    return group


def _rank(gpu: Gpu, reservations: Mapping[str, Reservations]) -> tuple[int, int]:
    """Rank a GPU that fits: whether it was picked moments ago, and whether a filler has to leave it first."""
    found = reservations.get(gpu.uuid, NOTHING_RESERVED) if isinstance(gpu.uuid, str) else NOTHING_RESERVED
    return int(found.picked), found.leaves


def _free_steps(gpu: Gpu) -> int:
    return 0 if isinstance(gpu.memory, Unknown) else gpu.memory.free_bytes // _MEMORY_STEP_BYTES


def _warmth_steps(gpu: Gpu) -> int:
    # Unknown ranks behind every known temperature.
    return 100 if isinstance(gpu.temperature_c, Unknown) else gpu.temperature_c // _WARMTH_STEP_C


def _place(gpu: Gpu) -> tuple[int, int]:
    return (gpu.index, -1 if gpu.mig is None else gpu.mig.slot)
