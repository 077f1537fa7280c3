"""The status of this machine: the daemon's for as long as it answers, else what this process reads itself."""

from collections.abc import Iterator, Sequence

from fallow.core.errors import FallowError
from fallow.core.gpu_status import Shown, Status
from fallow.core.owner import Owner
from fallow.core.protections import Protection
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.answers.asker import Asker
from fallow.engine.machine.observe import look_once, watch
from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.client.daemon_client import DaemonClient


@value
class Look:
    """A status, and the daemon that told it, if one did."""

    status: Status
    daemon: "DaemonClient | None"


def looks(asker: Asker, every_s: float | None) -> Iterator[Look]:
    """Yield a look every so many seconds, without end; None yields only one."""
    world, daemon = asker.world, asker.daemon
    while (status := daemon.status()) is not None:
        yield Look(status, daemon)
        if every_s is None:
            return
        world.clock.sleep(every_s)
    if every_s is not None:
        asker.detail(f"looking every {every_s:g} s")
        yield from (Look(_with_parked(world, status), None) for status in watch(world, every_s))
    asker.detail("looking once")
    yield Look(_with_parked(world, _with_names(world, look_once(world))), None)


def shown(look: Look, gpus: str | None, world: World) -> Shown:
    """Return what of a look concerns these GPUs, as a person names them; None means all."""
    named = look.status
    if gpus is not None:
        named = named.among(frozenset(gpu.label for gpu in select(gpus, named.gpus)))
    allowed = frozenset(gpu.label for gpu in visible(world.visible_devices, look.status.gpus))
    return Shown(named, world.visible_devices, named.among(allowed).available, named.gpus, {})


def protections_at(look: Look, world: World) -> Sequence[Protection] | Unknown:
    """Return the protections that were in force at a look."""
    from fallow.engine.jobs.protections import active_protections

    try:
        return active_protections(world, look.daemon)
    except FallowError as error:
        return Unknown(str(error))


def _with_parked(world: World, status: Status) -> Status:
    """Return the status with the jobs that a daemon of this user has parked, and that live."""
    from fallow.engine.park.record import ParkRecord

    parked = ParkRecord(world).read()
    return replace(status, parked=parked) if parked else status


def _with_names(world: World, status: Status) -> Status:
    """Return the status with the names of notebooks and containers; loaded only where there are any."""
    holders = (holder for gpu in status.gpus if not isinstance(gpu.holders, Unknown) for holder in gpu.holders)
    if not any(isinstance(holder.owner, Owner) and holder.owner.is_asked for holder in holders):
        return status
    from fallow.engine.owners.names import name_now

    return name_now(world, status)
