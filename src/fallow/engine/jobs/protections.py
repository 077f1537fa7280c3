"""The active protections, those that cover something, and what an action on a job touches."""

import os
from collections.abc import Collection, Iterable, Sequence

from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, labels_of
from fallow.core.protections import Affected, AffectedProcess, Protection, covering
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.actuators.process.tree import JobTree
    from fallow.engine.client.daemon_client import DaemonClient


def active_protections(world: World, daemon: "DaemonClient | None") -> Sequence[Protection]:
    """Return all active protections, from the daemon or from their folder."""
    listed = None if daemon is None else daemon.protections()
    return world.protections.active(world.clock.wall_s()) if listed is None else listed


def protections_on(
    gpus: Collection[Gpu],
    world: World,
    daemon: "DaemonClient | None",
    processes: tuple[AffectedProcess, ...] | None = None,
) -> list[Protection]:
    """Return those that cover these GPUs and these processes, or else all that is on the GPUs, to be shown.

    None if the folder cannot be read, which the claims report.
    """
    try:
        found = active_protections(world, daemon)
    except FallowError:
        return []
    touched = affected_by(gpus) if processes is None else Affected(uuids_with_cards(gpus), processes)
    return covering(found, touched, world.clock.wall_s())


def affected_processes(world: World, tree: "JobTree", *, watcher: bool) -> tuple[AffectedProcess, ...]:
    """Return all living processes of the job; with `watcher` fallow too, because people may protect either pid."""
    pids = [row.pid for row in tree.living()] + ([os.getpid()] if watcher else [])
    return tuple(affected_process(world, pid) for pid in pids)


def uuids_with_cards(gpus: Iterable[Gpu]) -> frozenset[str]:
    """Return the UUIDs of the GPUs and of their cards; a protection on a card covers its MIG instances."""
    own = {gpu.uuid for gpu in gpus}
    cards = {gpu.mig.parent_uuid for gpu in gpus if gpu.mig is not None}
    return frozenset(uuid for uuid in own | cards if isinstance(uuid, str))


def affected_by(gpus: Collection[Gpu]) -> Affected:
    """Return what an action on all that is on these GPUs would affect."""
    holders = [holder for gpu in gpus if not isinstance(gpu.holders, Unknown) for holder in gpu.holders]
    processes = tuple(AffectedProcess(each.pid, each.birth, each.user, each.command) for each in holders)
    return Affected(uuids_with_cards(gpus), processes)


def labels_with_cards(gpus: Collection[Gpu]) -> tuple[tuple[str, str], ...]:
    """Return the label of each GPU, and of its card, by UUID."""
    cards = {gpu.mig.parent_uuid: str(gpu.index) for gpu in gpus if gpu.mig is not None}
    known = {uuid: label for uuid, label in cards.items() if isinstance(uuid, str)}
    return tuple((known | labels_of(gpus)).items())


def affected_process(world: World, pid: int) -> AffectedProcess:
    """Return what is known of one process."""
    stat = world.proc.stat(pid)
    birth = Unknown("it has ended") if stat is None else stat.birth
    return AffectedProcess(pid, birth, world.proc.user(pid), world.proc.command(pid))
