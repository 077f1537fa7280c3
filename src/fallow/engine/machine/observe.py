"""From readings to a sight: each GPU judged, timed, and with who has claimed it."""

from collections.abc import Iterator, Mapping

from fallow.actuators.claims.claims import CardFile
from fallow.actuators.claims.fill_marks import filler_on
from fallow.core.activity import Activity, Finding
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.gpu_status import GpuStatus, Status, seen
from fallow.core.job import GpuKey
from fallow.core.ports import Depth
from fallow.core.reservations import NOTHING_READ, Claim, Reservations
from fallow.core.settling import SETTLING_S, Settling, settle
from fallow.core.standing import Around, filler_of, standing
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.visibility import seen_by
from fallow.engine.machine.claim_holders import claim_on
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import kept_pids
from fallow.policies import stuck
from fallow.policies.hang import counters_would_tell, is_full

MISSED_LOOKS = 3  # a gap of so many ticks is not witnessed
_STUCK_AFTER_S = 60.0  # a hang shorter than that may be a long kernel
_SECOND_LOOK_AFTER_S = 0.5  # the traffic that looking causes must not pass for work
_PEOPLES = (Activity.BUSY, Activity.IDLE, Activity.UNKNOWN)  # whoever is not there, or makes way, cannot hang


def look_once(world: World) -> Status:
    """All GPUs now. Nobody was watching before, so no time is witnessed."""
    world.look_patiently()
    snapshot = _with_counters(world, world.gpu_reader.look(Depth.LOOK))
    watcher = Watcher(world, _STUCK_AFTER_S)
    status = watcher.status(world.gpu_reader.describe(snapshot))
    once = replace(status, gpus=tuple(_unwatched(gpu, status.wall_s) for gpu in status.gpus))
    return seen_by(once, world.viewer)


def watch(world: World, every_s: float) -> Iterator[Status]:
    """A sight every so often, with the witnessed time of each activity; the pace is kept against the clock."""
    watcher = Watcher(world, every_s * MISSED_LOOKS)
    next_s = world.clock.monotonic_s()
    while True:
        yield seen_by(watcher.status(world.gpu_reader.describe(world.gpu_reader.look(Depth.LOOK))), world.viewer)
        now_s = world.clock.monotonic_s()
        next_s = max(next_s + every_s, now_s)
        world.clock.sleep(next_s - now_s)


class Watcher:
    """What is remembered of each GPU from one look to the next: what it did, and whether it seems to hang."""

    def __init__(self, world: World, longest_gap_s: float) -> None:
        self._world = world
        self._before: dict[str, Settling] = {}
        self._hangs: dict[str, stuck.State] = {}
        self.change(longest_gap_s)

    def change(self, longest_gap_s: float) -> None:
        """From now on a longer gap in the looking counts nothing; what was seen stays seen."""
        self._gap_s = longest_gap_s
        self._rules = stuck.StuckRules(_STUCK_AFTER_S, longest_gap_s=longest_gap_s)

    def status(self, snapshot: Snapshot, promised: Mapping[str, Reservations] = NOTHING_READ) -> Status:
        """The GPUs of one look, whose holders are described, judged and timed; `promised` was read at that look."""
        gpus = tuple(self._see(gpu, snapshot, _promised(self._world, gpu, promised)) for gpu in snapshot.gpus)
        return Status(snapshot.host, snapshot.simulated, snapshot.wall_s, gpus)

    def _see(self, gpu: Gpu, snapshot: Snapshot, promised: "_Promised") -> GpuStatus:
        around = Around(promised.claim, promised.fillers, _gone(self._world, gpu, promised))
        finding = self._or_hung(gpu, snapshot, standing(gpu, around))
        now, told = settle(self._before.get(gpu.label), finding, snapshot.at_s, self._gap_s)
        self._before[gpu.label] = now
        return seen(
            gpu,
            told,
            now.for_s,
            promised.claim,
            promised.waiting,
            filler_of(gpu, promised.fillers),
            tuple(sorted(around.nobody)),
            settling=now.settling,
        )

    def _or_hung(self, gpu: Gpu, snapshot: Snapshot, finding: Finding) -> Finding:
        """Whether what looks busy does nothing: said at the first look, called stuck once it has lasted."""
        if isinstance(gpu.uuid, Unknown):
            return finding
        before = self._hangs.get(gpu.uuid, stuck.State())
        if finding.activity not in _PEOPLES:
            self._hangs[gpu.uuid] = stuck.State(rest_w=before.rest_w)
            return finding
        decision = stuck.step(before, snapshot, [GpuKey(snapshot.host, gpu.uuid)], self._rules)
        self._hangs[gpu.uuid] = decision.state
        because = decision.verdict.because
        if decision.verdict.finding == "stuck":
            return Finding(Activity.STUCK, because)
        if decision.verdict.finding == "suspect" and finding.activity is Activity.BUSY:
            return Finding(Activity.BUSY, f"looks stuck: {because}")
        return finding


@value
class _Promised:
    """What the file of a card says of it, as far as processes bear it out."""

    claim: Claim | Unknown | None = None
    waiting: int = 0
    fillers: frozenset[int] = frozenset()
    """Those of its holders that make way."""


def _promised(world: World, gpu: Gpu, read: Mapping[str, Reservations]) -> _Promised:
    """Who has claimed it, how many wait, what fills it. A folder that cannot be read leaves it unknown."""
    if isinstance(gpu.uuid, Unknown):
        return _Promised(gpu.uuid)
    known = read.get(gpu.uuid)
    if known is not None and not known.in_line:  # else those who wait are to be counted
        return _Promised(known.claim, fillers=kept_pids(world, gpu) if known.filler is not None else frozenset())
    try:
        fd = world.folder.peek(gpu.uuid)
    except FallowError as error:
        return _Promised(Unknown(str(error)))
    if fd is None:
        return _Promised()
    card = CardFile(fd)
    try:
        return _Promised(
            claim_on(world, card),
            card.count_in_line(world.clock.monotonic_s()),
            kept_pids(world, gpu) if filler_on(card) is not None else frozenset(),
        )
    finally:
        card.close()


def _gone(world: World, gpu: Gpu, promised: _Promised) -> frozenset[int]:
    """Those of the holders beside a filler that have ended since the look: its own children come and go."""
    # In a container the driver's pids may be of another namespace: who is not to be seen need not have ended.
    if not promised.fillers or isinstance(gpu.holders, Unknown) or world.proc.in_pid_namespace_of_its_own():
        return frozenset()
    return frozenset(holder.pid for holder in gpu.holders if world.proc.stat(holder.pid) is None)


def _with_counters(world: World, snapshot: Snapshot) -> Snapshot:
    """Hardware counters need two looks: where they tell a hang from work, one look is worth a moment more."""
    if not any(counters_would_tell(gpu) for gpu in snapshot.gpus):
        return snapshot
    world.clock.sleep(_SECOND_LOOK_AFTER_S)
    later = {gpu.label: gpu for gpu in world.gpu_reader.look(Depth.LOOK).gpus}
    return replace(snapshot, gpus=tuple(_counted(gpu, later.get(gpu.label)) for gpu in snapshot.gpus))


def _counted(gpu: Gpu, later: Gpu | None) -> Gpu:
    if later is None or later.uuid != gpu.uuid or not counters_would_tell(gpu) or not is_full(later):
        return gpu
    # Of the stretch in which the counters counted: what the driver sampled before may be of another job.
    names = ("counters", "recent", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
    return replace(gpu, **{name: getattr(later, name) for name in names})


def _unwatched(gpu: GpuStatus, wall_s: float) -> GpuStatus:
    """As one look saw it: no time was witnessed, and whoever claimed it moments ago is still starting."""
    since_s = gpu.claim.since_wall_s if isinstance(gpu.claim, Claim) and not gpu.holders else None
    if gpu.activity is Activity.IDLE and since_s is not None and 0 <= wall_s - since_s < SETTLING_S:
        because = f"{gpu.because} yet; idle once that lasts for {duration_for_people(SETTLING_S)}"
        return replace(gpu, activity=Activity.BUSY, because=because, for_s=None, settling=True)
    return replace(gpu, for_s=None)
