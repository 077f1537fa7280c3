"""The holds that last, as the daemon knows them or as the folder has them, and those on something."""

from collections.abc import Iterable, Sequence

from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu
from fallow.core.holds import Hold, Touched, TouchedProcess, covering
from fallow.engine.touching import uuids_with_cards
from fallow.engine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.asking import Daemon


def lasting(world: World, daemon: "Daemon | None") -> Sequence[Hold]:
    """All that last."""
    listed = None if daemon is None else daemon.holds()
    return world.holds.active(world.clock.wall_s()) if listed is None else listed


def holds_on(
    gpus: Iterable[Gpu], world: World, daemon: "Daemon | None", processes: tuple[TouchedProcess, ...] = ()
) -> list[Hold]:
    """Those on these, to be shown: who cannot read the folder is told so with the claims, which are in it too."""
    try:
        found = lasting(world, daemon)
    except FallowError:
        return []
    return covering(found, Touched(uuids_with_cards(gpus), processes), world.clock.wall_s())
