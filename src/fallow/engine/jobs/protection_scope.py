"""What an action would touch: every process of a job, whoever watches it, and its GPUs with the cards they are on."""

import os
from collections.abc import Iterable

from fallow.actuators.process.tree import JobTree
from fallow.core.gpu import Gpu
from fallow.core.protections import AffectedProcess
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World


def affected_processes(world: World, tree: JobTree, *, watcher: bool) -> tuple[AffectedProcess, ...]:
    """All that live of the job: who holds the pid that they see in `ps` may mean any of them, or the watcher."""
    pids = [row.pid for row in tree.living()] + ([os.getpid()] if watcher else [])
    return tuple(_touched(world, pid) for pid in pids)


def uuids_with_cards(gpus: Iterable[Gpu]) -> frozenset[str]:
    """The UUIDs of the GPUs; a protection on a card covers its MIG instances."""
    own = {gpu.uuid for gpu in gpus}
    cards = {gpu.mig.parent_uuid for gpu in gpus if gpu.mig is not None}
    return frozenset(uuid for uuid in own | cards if isinstance(uuid, str))


def _touched(world: World, pid: int) -> AffectedProcess:
    stat = world.proc.stat(pid)
    birth = Unknown("it has ended") if stat is None else stat.birth
    return AffectedProcess(pid, birth, world.proc.user(pid), world.proc.command(pid))
