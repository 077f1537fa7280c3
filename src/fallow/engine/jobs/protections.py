"""Read the active protections, from the daemon or from their folder, and find those that cover something."""

from collections.abc import Iterable, Sequence

from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu
from fallow.core.protections import Affected, AffectedProcess, Protection, covering
from fallow.engine.jobs.protection_scope import uuids_with_cards
from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient


def active_protections(world: World, daemon: "DaemonClient | None") -> Sequence[Protection]:
    """Return all active protections."""
    listed = None if daemon is None else daemon.protections()
    return world.protections.active(world.clock.wall_s()) if listed is None else listed


def protections_on(
    gpus: Iterable[Gpu], world: World, daemon: "DaemonClient | None", processes: tuple[AffectedProcess, ...] = ()
) -> list[Protection]:
    """Return those that cover these, to be shown; none if the folder cannot be read, which the claims report."""
    try:
        found = active_protections(world, daemon)
    except FallowError:
        return []
    return covering(found, Affected(uuids_with_cards(gpus), processes), world.clock.wall_s())
