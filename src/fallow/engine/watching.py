"""From readings to a sight: each GPU judged, timed, and with who has claimed it."""

from collections.abc import Iterator

from fallow.actuators.claims import CardFile
from fallow.core.activity import judge
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.promise import Claim
from fallow.core.seen import SeenGpu, Sight, seen
from fallow.core.unknown import Unknown
from fallow.core.witness import Witness, witness
from fallow.engine.world import World

_MISSED_LOOKS = 3  # a gap of so many ticks is not witnessed


def look_once(world: World) -> Sight:
    """All GPUs now. Nobody was watching before, so no time is witnessed."""
    return _sight(world, None, 0.0)


def watch(world: World, every_s: float) -> Iterator[Sight]:
    """A sight every so often, with the witnessed time of each activity; the pace is kept against the clock."""
    witnesses: dict[str, Witness] = {}
    next_s = world.clock.monotonic_s()
    while True:
        yield _sight(world, witnesses, every_s * _MISSED_LOOKS)
        now_s = world.clock.monotonic_s()
        next_s = max(next_s + every_s, now_s)
        world.clock.sleep(next_s - now_s)


def _sight(world: World, witnesses: dict[str, Witness] | None, longest_gap_s: float) -> Sight:
    snapshot = world.eyes.describe(world.eyes.look(Depth.LOOK))
    gpus: list[SeenGpu] = []
    for gpu in snapshot.gpus:
        finding = judge(gpu)
        for_s = None
        if witnesses is not None:
            before = witnesses.get(gpu.label)
            now = witness(before, finding.activity, snapshot.at_s, longest_gap_s)
            witnesses[gpu.label] = now
            for_s = now.seconds
        gpus.append(seen(gpu, finding, for_s, *_promised(world, gpu)))
    return Sight(snapshot.host, snapshot.simulated, snapshot.wall_s, tuple(gpus))


def _promised(world: World, gpu: Gpu) -> tuple[Claim | Unknown | None, int]:
    """Who has claimed it, and how many wait. A folder that cannot be read makes that unknown, not the GPU."""
    if isinstance(gpu.uuid, Unknown):
        return gpu.uuid, 0
    try:
        fd = world.folder.peek(gpu.uuid)
    except FallowError as error:
        return Unknown(str(error)), 0
    if fd is None:
        return None, 0
    card = CardFile(fd)
    try:
        return card.claim(), card.count_in_line()
    finally:
        card.close()
