"""Make a status of a snapshot: the activity of each GPU, how long it has lasted, and who has claimed the GPU."""

from collections.abc import Iterator, Mapping, Sequence

from fallow.core.activity import Activity, Finding
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.gpu_status import GpuStatus, Status, seen
from fallow.core.job import GpuKey
from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim, Waiter
from fallow.core.settling import SETTLING_S, Settling, settle
from fallow.core.standing import Around, filler_of, standing
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.core.visibility import seen_by
from fallow.engine.machine.claims_seen import line, seen_reservations
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import filler_pids, has_ended
from fallow.policies import stuck
from fallow.policies.hang import counters_would_tell, hang_at_a_glance, is_full

MISSED_LOOKS = 3  # a gap of so many ticks is not witnessed
_STUCK_AFTER_S = 60.0  # a hang shorter than that may be a long kernel
_SECOND_LOOK_AFTER_S = 0.5  # so that the traffic of the look itself does not count as work
_CAN_HANG = (Activity.BUSY, Activity.IDLE, Activity.UNKNOWN)


def look_once(world: World) -> Status:
    """Return the status now. There was no look before, so no time is witnessed."""
    snapshot = _with_counters(world, world.gpu_reader.look(Depth.ALL))
    watcher = Watcher(world, _STUCK_AFTER_S)
    status = watcher.status(world.gpu_reader.describe(snapshot))
    once = replace(status, gpus=tuple(_unwatched(gpu, status.wall_s) for gpu in status.gpus))
    return seen_by(once, world.viewer)


def watch(world: World, every_s: float) -> Iterator[Status]:
    """Yield a status every `every_s`, with the witnessed time of each activity; delays do not add up."""
    watcher = Watcher(world, every_s * MISSED_LOOKS)
    next_s = world.clock.monotonic_s()
    while True:
        yield seen_by(watcher.status(world.gpu_reader.describe(world.gpu_reader.look(Depth.ALL))), world.viewer)
        now_s = world.clock.monotonic_s()
        next_s = max(next_s + every_s, now_s)
        world.clock.sleep(next_s - now_s)


class Watcher:
    """Remembers the activity of each GPU from one look to the next, and whether its job seems to hang."""

    def __init__(self, world: World, longest_gap_s: float) -> None:
        self._world = world
        self._before: dict[str, Settling] = {}
        self._holders: dict[str, Mapping[int, int | Unknown]] = {}
        self._hangs: dict[str, stuck.State] = {}
        self.change(longest_gap_s)

    def change(self, longest_gap_s: float) -> None:
        """Count no gap between looks that is longer than this, from now on. What is remembered stays."""
        self._gap_s = longest_gap_s
        self._rules = stuck.StuckRules(_STUCK_AFTER_S, longest_gap_s=longest_gap_s)

    def status(self, snapshot: Snapshot) -> Status:
        """Return the status of a snapshot with described holders."""
        waiters = _line(self._world)
        gpus = tuple(
            self._gpu_status(gpu, snapshot, sum(gpu.uuid in waiter.gpus for waiter in waiters))
            for gpu in snapshot.gpus
        )
        return Status(snapshot.host, snapshot.simulated, snapshot.wall_s, gpus)

    def _gpu_status(self, gpu: Gpu, snapshot: Snapshot, waiting: int) -> GpuStatus:
        around = _around(self._world, gpu)
        finding = self._check_hang(gpu, snapshot, standing(gpu, around))
        finding = self._check_newcomer(gpu, finding, around)
        now, settled = settle(self._before.get(gpu.label), finding, snapshot.at_s, self._gap_s)
        self._before[gpu.label] = now
        return seen(
            gpu,
            settled,
            now.for_s,
            around.claim,
            waiting=waiting,
            filler=filler_of(gpu, around.fillers),
            filler_pids=tuple(sorted(around.ignored)),
        )

    def _check_newcomer(self, gpu: Gpu, finding: Finding, around: Around) -> Finding:
        """Return the finding; busy if a process came to a GPU on which nothing ran: what was before is not its own.

        Otherwise who sits on a GPU without using it would make everybody idle who comes to it.
        """
        if isinstance(gpu.holders, Unknown):
            return finding
        now = {holder.pid: holder.birth for holder in gpu.holders if holder.pid not in around.ignored}
        known, self._holders[gpu.label] = self._holders.get(gpu.label, {}), now
        before = self._before.get(gpu.label)
        was_quiet = before is not None and (before.idle or before.settling)
        came = next((pid for pid, birth in now.items() if not _is_known(known, pid, birth)), None)
        if finding.activity is not Activity.IDLE or not was_quiet or came is None:
            return finding
        return Finding(Activity.BUSY, Reason("came", pid=came))

    def _check_hang(self, gpu: Gpu, snapshot: Snapshot, finding: Finding) -> Finding:
        """Return the finding, changed if the job seems to hang: a remark at first, stuck once it has lasted."""
        if isinstance(gpu.uuid, Unknown):
            return finding
        before = self._hangs.get(gpu.uuid, stuck.State())
        if finding.activity not in _CAN_HANG:
            self._hangs[gpu.uuid] = stuck.State(rest_w=before.rest_w)
            return finding
        look = hang_at_a_glance(gpu)
        if look is not None:
            self._hangs[gpu.uuid] = stuck.glanced(before, gpu, gpu.uuid, snapshot.at_s, look)
            return finding
        decision = stuck.step(before, snapshot, [GpuKey(snapshot.host, gpu.uuid)], self._rules)
        self._hangs[gpu.uuid] = decision.state
        found = decision.verdict.reason
        if decision.verdict.finding == "stuck":
            return Finding(Activity.STUCK, found)
        if decision.verdict.finding == "suspect" and finding.activity is Activity.BUSY:
            return Finding(Activity.BUSY, Reason("suspect", found=found))
        return finding


def _is_known(known: Mapping[int, int | Unknown], pid: int, birth: int | Unknown) -> bool:
    """Return whether it was there before; one whose birth cannot be read is taken for the same."""
    before = known.get(pid)
    return before is not None and (before == birth or isinstance(before, Unknown) or isinstance(birth, Unknown))


def _line(world: World) -> Sequence[Waiter]:
    """Return the launches that wait; none if the claim folder cannot be read, as each GPU's claim shows then."""
    try:
        return line(world)
    except FallowError:
        return ()


def _around(world: World, gpu: Gpu) -> Around:
    """Return the claim on a GPU and its fillers; an unknown claim if the folder cannot be read."""
    if isinstance(gpu.uuid, Unknown):
        return Around(gpu.uuid)
    try:
        found = seen_reservations(world, gpu.uuid)
    except FallowError as error:
        return Around(Unknown(str(error)))
    fillers = frozenset() if found.filler is None else filler_pids(world, gpu)
    if not fillers or isinstance(gpu.holders, Unknown):
        return Around(found.claim)
    return Around(found.claim, fillers, frozenset(each.pid for each in gpu.holders if has_ended(world, each.pid)))


def _with_counters(world: World, snapshot: Snapshot) -> Snapshot:
    """Look again where hardware counters, which need two looks, can distinguish a hang from work."""
    if not any(counters_would_tell(gpu) for gpu in snapshot.gpus):
        return snapshot
    world.clock.sleep(_SECOND_LOOK_AFTER_S)
    later = {gpu.label: gpu for gpu in world.gpu_reader.look(Depth.ALL).gpus}
    return replace(snapshot, gpus=tuple(_counted(gpu, later.get(gpu.label)) for gpu in snapshot.gpus))


def _counted(gpu: Gpu, later: Gpu | None) -> Gpu:
    if later is None or later.uuid != gpu.uuid or not counters_would_tell(gpu) or not is_full(later):
        return gpu
    # All from the time that the counters cover: earlier samples may be of another job.
    names = ("counters", "recent", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
    return replace(gpu, **{name: getattr(later, name) for name in names})


def _unwatched(gpu: GpuStatus, wall_s: float) -> GpuStatus:
    """Return the status without a duration, which one look cannot know; a GPU claimed moments ago is not idle yet."""
    since_s = gpu.claim.since_wall_s if isinstance(gpu.claim, Claim) and not gpu.holders else None
    if gpu.activity is Activity.IDLE and since_s is not None and 0 <= wall_s - since_s < SETTLING_S:
        reason = Reason("just_claimed", found=gpu.reason, after_s=SETTLING_S)
        return replace(gpu, activity=Activity.BUSY, reason=reason, for_s=None)
    return replace(gpu, for_s=None)
