"""What an action on a job touches: its processes, the fallow that watches it, and its GPUs with their cards."""

import os
from collections.abc import Iterable

from fallow.actuators.process.tree import JobTree
from fallow.core.gpu import Gpu
from fallow.core.protections import AffectedProcess
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World


def affected_processes(world: World, tree: JobTree, *, watcher: bool) -> tuple[AffectedProcess, ...]:
    """Return all living processes of the job; with `watcher` fallow too, because people may protect either pid."""
    pids = [row.pid for row in tree.living()] + ([os.getpid()] if watcher else [])
    return tuple(affected_process(world, pid) for pid in pids)


def uuids_with_cards(gpus: Iterable[Gpu]) -> frozenset[str]:
    """Return the UUIDs of the GPUs and of their cards; a protection on a card covers its MIG instances."""
    own = {gpu.uuid for gpu in gpus}
    cards = {gpu.mig.parent_uuid for gpu in gpus if gpu.mig is not None}
    return frozenset(uuid for uuid in own | cards if isinstance(uuid, str))


def affected_process(world: World, pid: int) -> AffectedProcess:
    """Return what is known of one process."""
    stat = world.proc.stat(pid)
    birth = Unknown("it has ended") if stat is None else stat.birth
    return AffectedProcess(pid, birth, world.proc.user(pid), world.proc.command(pid))
