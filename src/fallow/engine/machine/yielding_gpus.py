"""Cards with a filler on them are as good as free: whoever picks or claims one is made way for.

The mark on a card says that there is a filler, and any user can place one. Which processes are a filler's is told by
their keeper above them: a process whose command line says so and which is root's or our own user's. For those two the
command line can be believed, since nobody else can start a process as them; for anybody else nothing proves that the
work will yield, not even the program that they run, which may be Python with any module in it. So `pick` does not
give a card with such work on it. `run` may claim it, which makes a true filler leave, and waits until it has.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from fallow.actuators.claims.claims import CardFile
from fallow.actuators.claims.fill_marks import filler_on
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu, Memory
from fallow.core.ports import Depth
from fallow.core.reservations import NOTHING_RESERVED, Reservations
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace
from fallow.engine.machine.world import World

KEEPER = "fallow.engine.fill.keeper"
"""The module that keeps a filler. Its name in a command line is how a filler's tree is known."""
_LEAVES_WITHIN_S = 60.0
_SHOWS_WITHIN_S = 10.0  # a filler that starts is on the card by then; a mark without one is nobody's
_LOOK_AGAIN_S, _LONGEST_NAP_S = 0.005, 0.1


def without_fillers(
    world: World, gpus: Iterable[Gpu], promised: Mapping[str, Reservations], *, anybodys: bool
) -> tuple[tuple[Gpu, ...], dict[str, Reservations]]:
    """The GPUs as they will be once their fillers have made way, and what is promised of them with that told.

    `anybodys`: also fillers of other users, for whoever claims the GPU and waits until it is clear.
    """
    cleared: list[Gpu] = []
    told = dict(promised)
    for gpu in gpus:
        before = promised.get(str(gpu.uuid), NOTHING_RESERVED)
        if before.filler is None:
            cleared.append(gpu)
            continue
        left, in_the_way = _without_filler(world, gpu, anybodys=anybodys)
        cleared.append(left)
        told[str(gpu.uuid)] = replace(before, in_the_way=in_the_way)
    return tuple(cleared), told


def kept_pids(world: World, gpu: Gpu, *, anybodys: bool = False) -> frozenset[int]:
    """The holders of a GPU that are a filler's, of root's or our own; or of anybody who says so."""
    if isinstance(gpu.holders, Unknown):
        return frozenset()
    believed = (0, os.geteuid())

    def is_kept(pid: int) -> bool:
        keeper = _keeper_of(world, pid)
        return keeper is not None and (anybodys or world.proc.uid(keeper) in believed)

    return frozenset(holder.pid for holder in gpu.holders if is_kept(holder.pid))


def _keeper_of(world: World, pid: int) -> int | None:
    for above in world.proc.ancestors(pid):
        command = world.proc.command(above)
        if isinstance(command, str) and KEEPER in command.split():
            return above
    return None


def _without_filler(world: World, gpu: Gpu, *, anybodys: bool) -> tuple[Gpu, int]:
    """The GPU without its filler, if all that are on it are one; and what has to leave it."""
    if isinstance(gpu.holders, Unknown) or isinstance(gpu.memory, Unknown):
        return gpu, 2
    ours = kept_pids(world, gpu)
    fillers = kept_pids(world, gpu, anybodys=True) if anybodys else ours
    others = [holder.pid for holder in gpu.holders if holder.pid not in fillers]
    if not fillers or any(not _has_ended(world, pid) for pid in others):
        return gpu, 2  # nobody yet, or somebody who will not leave
    memory = gpu.memory
    used = max(0, memory.used_bytes - sum(known(holder.memory_bytes, 0) for holder in gpu.holders))
    left = Memory(memory.total_bytes, used, memory.free_bytes + memory.used_bytes - used, memory.floor_bytes)
    load = gpu.utilization if isinstance(gpu.utilization, Unknown) else 0.0
    traffic = gpu.memory_utilization if isinstance(gpu.memory_utilization, Unknown) else 0.0
    cleared = replace(gpu, holders=(), memory=left, utilization=load, memory_utilization=traffic)
    return cleared, 1 if fillers == ours else 2


def _has_ended(world: World, pid: int) -> bool:
    """Whether a process was gone by the time that we looked at it: a filler's own children come and go."""
    return not world.proc.in_pid_namespace_of_its_own() and world.proc.stat(pid) is None


def wait_until_clear(world: World, gpus: Iterable[Gpu], most_holders: int, tell: Callable[[str], None]) -> None:
    """Until nobody is left on GPUs that we have claimed, which is what makes fillers leave; else NotEnoughGpus."""
    start_s = world.clock.monotonic_s()
    marked = [gpu for gpu in gpus if _is_marked(world, gpu)]
    for gpu in marked:
        for nap_s in _naps(world, start_s + _LEAVES_WITHIN_S):
            is_marked = _is_marked(world, gpu)
            waited_s = world.clock.monotonic_s() - start_s
            if (not is_marked or waited_s >= _SHOWS_WITHIN_S) and _crowd(world, gpu) <= most_holders:
                break
            if nap_s >= _LONGEST_NAP_S:
                tell(f"waiting for the filler on GPU {gpu.label} to leave")
            world.clock.sleep(nap_s)
        else:
            why = f"what is on it has not left within {_LEAVES_WITHIN_S:.0f} s, though it is marked as a filler"
            raise NotEnoughGpus(f"GPU {gpu.label} is not available", {gpu.label: why})


def _is_marked(world: World, gpu: Gpu) -> bool:
    card = CardFile(world.folder.open(str(gpu.uuid)))
    try:
        return filler_on(card) is not None
    finally:
        card.close()


def _crowd(world: World, gpu: Gpu) -> float:
    """How many are on a GPU now; endless if that cannot be told."""
    now = next((each for each in world.gpu_reader.look(Depth.GLANCE).gpus if each.uuid == gpu.uuid), None)
    return float("inf") if now is None or isinstance(now.holders, Unknown) else len(now.holders)


def _naps(world: World, until_s: float) -> Iterator[float]:
    nap_s = _LOOK_AGAIN_S
    while world.clock.monotonic_s() < until_s:
        yield nap_s
        nap_s = min(_LONGEST_NAP_S, 1.1 * nap_s)
