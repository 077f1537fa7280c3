"""From readings to a sight: each GPU judged, timed, and with who has claimed it."""

from collections.abc import Iterator

from fallow.actuators.claims import CardFile
from fallow.actuators.fill_marks import filler_on
from fallow.core.activity import Activity, Finding, judge
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth
from fallow.core.promise import Claim
from fallow.core.seen import SeenGpu, Sight, seen
from fallow.core.unknown import Unknown
from fallow.core.who_sees import seen_by
from fallow.core.witness import Witness, witness
from fallow.engine.claimants import claim_on
from fallow.engine.world import World
from fallow.policies import stuck

MISSED_LOOKS = 3  # a gap of so many ticks is not witnessed
_STUCK_AFTER_S = 60.0  # a hang shorter than that may be a long kernel


def look_once(world: World) -> Sight:
    """All GPUs now. Nobody was watching before, so no time is witnessed."""
    snapshot = world.eyes.describe(world.eyes.look(Depth.LOOK))
    gpus = (seen(gpu, judge(gpu), None, *_promised(world, gpu)) for gpu in snapshot.gpus)
    sight = Sight(snapshot.host, snapshot.simulated, snapshot.wall_s, tuple(gpus))
    return seen_by(sight, world.viewer)


def watch(world: World, every_s: float) -> Iterator[Sight]:
    """A sight every so often, with the witnessed time of each activity; the pace is kept against the clock."""
    watcher = Watcher(world, every_s * MISSED_LOOKS)
    next_s = world.clock.monotonic_s()
    while True:
        yield seen_by(watcher.sight(world.eyes.describe(world.eyes.look(Depth.LOOK))), world.viewer)
        now_s = world.clock.monotonic_s()
        next_s = max(next_s + every_s, now_s)
        world.clock.sleep(next_s - now_s)


class Watcher:
    """What is remembered of each GPU from one look to the next: what it did, and whether it seems to hang."""

    def __init__(self, world: World, longest_gap_s: float) -> None:
        self._world = world
        self._witnesses: dict[str, Witness] = {}
        self._hangs: dict[str, stuck.State] = {}
        self._gap_s = longest_gap_s
        self._rules = stuck.StuckRules(_STUCK_AFTER_S, longest_gap_s=longest_gap_s)

    def sight(self, snapshot: Snapshot) -> Sight:
        """The GPUs of one look, whose holders are described, judged and timed."""
        gpus: list[SeenGpu] = []
        for gpu in snapshot.gpus:
            finding, for_s = self._judge(gpu, snapshot)
            gpus.append(seen(gpu, finding, for_s, *_promised(self._world, gpu)))
        return Sight(snapshot.host, snapshot.simulated, snapshot.wall_s, tuple(gpus))

    def _judge(self, gpu: Gpu, snapshot: Snapshot) -> tuple[Finding, float]:
        """What the GPU does, and for how long that has been witnessed."""
        finding = judge(gpu)
        if isinstance(gpu.uuid, str) and finding.activity is not Activity.FREE:  # whoever is not there cannot hang
            before = self._hangs.get(gpu.uuid, stuck.State())
            decision = stuck.step(before, snapshot, [gpu.uuid], self._rules)
            self._hangs[gpu.uuid] = decision.state
            if decision.verdict.finding == "stuck":
                finding = Finding(Activity.STUCK, decision.verdict.because)
        now = witness(self._witnesses.get(gpu.label), finding.activity, snapshot.at_s, self._gap_s)
        self._witnesses[gpu.label] = now
        return finding, now.seconds


def _promised(world: World, gpu: Gpu) -> tuple[Claim | Unknown | None, int, Claim | None]:
    """Who has claimed it, how many wait, what fills it. A folder that cannot be read leaves it unknown."""
    if isinstance(gpu.uuid, Unknown):
        return gpu.uuid, 0, None
    try:
        fd = world.folder.peek(gpu.uuid)
    except FallowError as error:
        return Unknown(str(error)), 0, None
    if fd is None:
        return None, 0, None
    card = CardFile(fd)
    try:
        return claim_on(world, card), card.count_in_line(world.clock.monotonic_s()), filler_on(card)
    finally:
        card.close()
