"""The protections that last, as the daemon knows them or as the folder has them, and those on something."""

from collections.abc import Iterable, Sequence

from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu
from fallow.core.protections import (
    Affected,
    AffectedProcess,
    Protection,
    covering,
)
from fallow.engine.jobs.protection_scope import uuids_with_cards
from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient


def active_protections(world: World, daemon: "DaemonClient | None") -> Sequence[Protection]:
    """All that last."""
    listed = None if daemon is None else daemon.protections()
    return world.protections.active(world.clock.wall_s()) if listed is None else listed


def protections_on(
    gpus: Iterable[Gpu], world: World, daemon: "DaemonClient | None", processes: tuple[AffectedProcess, ...] = ()
) -> list[Protection]:
    """Those on these, to be shown: who cannot read the folder is told so with the claims, which are in it too."""
    try:
        found = active_protections(world, daemon)
    except FallowError:
        return []
    return covering(found, Affected(uuids_with_cards(gpus), processes), world.clock.wall_s())
