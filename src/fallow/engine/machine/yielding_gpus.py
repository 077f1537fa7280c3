"""Treat GPUs with a filler on them as free: the filler yields to a job that picks or claims the GPU.

Any user can mark a GPU as filled. So a process belongs to a filler only if a keeper is among its ancestors: a process
of root or of our own user whose command line says so, since no other user can start one as them. Of other users
nothing proves that their work will yield. So `pick` does not give a GPU with such work on it. `run` may claim it,
which makes a true filler leave, and waits until it has.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from fallow.actuators.claims.claims import filler_on
from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu, Memory
from fallow.core.ports import Depth
from fallow.core.process import DEEPEST
from fallow.core.reservations import NOTHING_RESERVED, Leaves, Reservations
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace
from fallow.engine.machine.world import World

KEEPER = "fallow.engine.fill.keeper"
"""The module of a filler's keeper. Its name in a command line marks the process tree of a filler."""
_LEAVES_WITHIN_S = 60.0
_SHOWS_WITHIN_S = 10.0  # a filler that starts is on the GPU by then; a mark without one is ignored
_LOOK_AGAIN_S, _LONGEST_PAUSE_S = 0.005, 0.1


def without_fillers(
    world: World, gpus: Iterable[Gpu], reservations: Mapping[str, Reservations], *, of_all_users: bool
) -> tuple[tuple[Gpu, ...], dict[str, Reservations]]:
    """Return the GPUs as they will be without their fillers, and the reservations with what has to leave first.

    `of_all_users`: also without fillers of other users, for a launch that claims the GPU and waits until it is clear.
    """
    cleared: list[Gpu] = []
    adjusted = dict(reservations)
    for gpu in gpus:
        before = reservations.get(str(gpu.uuid), NOTHING_RESERVED)
        if before.filler is None:
            cleared.append(gpu)
            continue
        left, leaves = _without_filler(world, gpu, of_all_users=of_all_users)
        cleared.append(left)
        adjusted[str(gpu.uuid)] = replace(before, leaves=leaves)
    return tuple(cleared), adjusted


def filler_pids(world: World, gpu: Gpu, *, of_all_users: bool = False) -> frozenset[int]:
    """Return the holders that belong to a filler of root or our own; with `of_all_users`, of any user."""
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    below = {holder.pid: _keeper_of(world, holder.pid) for holder in holders}
    # Others choose arguments of root's programs, as of login.
    return frozenset(
        pid
        for pid, keeper in below.items()
        if keeper is not None and (of_all_users or KEEPER in world.proc.trusted_names(keeper))
    )


def _keeper_of(world: World, pid: int) -> int | None:
    for above in islice(world.proc.ancestors(pid), DEEPEST):
        command = world.proc.command(above)
        if isinstance(command, str) and KEEPER in command.split():
            return above
    return None


def _without_filler(world: World, gpu: Gpu, *, of_all_users: bool) -> tuple[Gpu, Leaves]:
    """Return the GPU without its fillers, if all its holders are fillers, and which filler has to leave first."""
    if isinstance(gpu.holders, Unknown) or isinstance(gpu.memory, Unknown):
        return gpu, Leaves.OTHERS
    ours = filler_pids(world, gpu)
    fillers = filler_pids(world, gpu, of_all_users=True) if of_all_users else ours
    others = [holder.pid for holder in gpu.holders if holder.pid not in fillers]
    if not fillers or any(not has_ended(world, pid) for pid in others):
        return gpu, Leaves.OTHERS  # no filler yet, or a process that will not leave
    memory = gpu.memory
    used = max(0, memory.used_bytes - sum(known(holder.memory_bytes, 0) for holder in gpu.holders))
    left = Memory(memory.total_bytes, used, memory.free_bytes + memory.used_bytes - used, memory.floor_bytes)
    load = gpu.utilization if isinstance(gpu.utilization, Unknown) else 0.0
    traffic = gpu.memory_utilization if isinstance(gpu.memory_utilization, Unknown) else 0.0
    cleared = replace(gpu, holders=(), memory=left, utilization=load, memory_utilization=traffic)
    return cleared, Leaves.OURS if fillers == ours else Leaves.OTHERS


def has_ended(world: World, pid: int) -> bool:
    """Return whether a holder has ended since the look, as a filler's children do all the time."""
    # In a container the driver's pids may be of another namespace: a process without a /proc entry may still run.
    return not world.proc.in_pid_namespace_of_its_own() and world.proc.stat(pid) is None


def wait_until_clear(world: World, gpus: Iterable[Gpu], most_holders: int, say: Callable[[str], None]) -> None:
    """Wait until the fillers have left GPUs that we have claimed; raise NotEnoughGpus if they do not."""
    start_s = world.clock.monotonic_s()
    for gpu in [gpu for gpu in gpus if is_marked(world.folder, str(gpu.uuid))]:
        pause_s = _LOOK_AGAIN_S
        while not _is_clear(world, gpu, most_holders, world.clock.monotonic_s() - start_s):
            if world.clock.monotonic_s() - start_s >= _LEAVES_WITHIN_S:
                why = f"what is on it has not left within {_LEAVES_WITHIN_S:.0f} s, though it is marked as a filler"
                raise NotEnoughGpus(f"GPU {gpu.label} is not available", {gpu.label: why})
            if pause_s == _LONGEST_PAUSE_S:
                say(f"waiting for the filler on GPU {gpu.label} to leave")
            world.clock.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 1.1 * pause_s)


def _is_clear(world: World, gpu: Gpu, most_holders: int, waited_s: float) -> bool:
    if is_marked(world.folder, str(gpu.uuid)) and waited_s < _SHOWS_WITHIN_S:
        return False
    now = next((each for each in world.gpu_reader.look(Depth.HOLDERS).gpus if each.uuid == gpu.uuid), None)
    return now is not None and not isinstance(now.holders, Unknown) and len(now.holders) <= most_holders


def is_marked(folder: ClaimFolder, uuid: str) -> bool:
    """Return whether a GPU is marked as filled."""
    fd = folder.peek(uuid)
    if fd is None:
        return False
    try:
        return filler_on(fd) is not None
    finally:
        os.close(fd)
