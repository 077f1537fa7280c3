"""Take the looks of `fallow top`: from the daemon while it answers, so that the driver has one reader; else alone."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from fallow.core.board import Counting
from fallow.core.errors import FallowError
from fallow.core.gpu_status import Status
from fallow.core.protections import Protection
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.client.daemon_client import DaemonClient, RecentStep, Ruled
from fallow.engine.jobs.protections import active_protections
from fallow.engine.machine.observe import watch
from fallow.engine.machine.world import World
from fallow.readers.proc import TICKS_PER_S

_ASK_AGAIN_S = 10.0  # a daemon that does not answer costs two seconds each time
_SHELLS_SHOWN = 4
_ASKS_FOR_PAST = 5


@value
class Starter:
    """How a process came to be: its session, and the programs above it, the nearest first."""

    session: int
    above: tuple[tuple[int, str], ...] = ()
    """The pid and the name of each."""
    age_s: float | None = None
    """For how long the process has run."""


@value
class Look:
    """All that one look shows."""

    status: Status
    at_s: float
    """When it was so, in monotonic seconds."""
    source: str
    """Where it comes from, for people."""
    rules: tuple[Ruled, ...] | None = None
    """The daemon's rules, guards and fillers; None if no daemon told them."""
    protections: tuple[Protection, ...] | Unknown = ()
    starters: Mapping[int, Starter] = {}
    """How the processes on GPUs were started, by pid, as far as /proc tells."""
    past: Mapping[str, Sequence[RecentStep]] = {}
    """What each GPU did in the minutes before, by its label; only in the first look that a daemon tells."""

    @property
    def counting(self) -> tuple[Counting, ...]:
        """Return what the idle rules count."""
        return tuple(each for each in self.rules or () if isinstance(each, Counting))


class Source:
    """Takes looks. Used by one thread."""

    def __init__(self, world: World, every_s: float) -> None:
        self._world = world
        self._every_s = every_s
        self._daemon = world.daemon(self._hear)
        self._heard = ""
        self._not_before_s = 0.0
        self._trouble = "no daemon runs"
        self._watch: Iterator[Status] | None = None
        self._asks_for_past = _ASKS_FOR_PAST
        self._pids_are_ours = world.proc.whose_pids() is None and (
            world.simulated is not None or not world.proc.in_pid_namespace_of_its_own()
        )

    def look(self) -> Look:
        """Return what is so now; raise FallowError if nobody can tell."""
        daemon = self._answering()
        status = None if daemon is None else self._told(daemon)
        if daemon is not None and status is not None:
            self._watch = None  # what was witnessed alone has a gap from now on
            rules = daemon.rules_on([str(gpu.uuid) for gpu in status.gpus], None)
            return self._look_of(status, "the daemon", None if rules is None else tuple(rules), daemon)
        return self._look_of(self._alone(), f"alone: {self._trouble}", None, None)

    def _answering(self) -> DaemonClient | None:
        """Return the daemon, unless it failed to answer moments ago."""
        return self._daemon if self._world.clock.monotonic_s() >= self._not_before_s else None

    def _told(self, daemon: DaemonClient) -> Status | None:
        self._heard = ""
        status = daemon.status()
        if self._heard:
            self._trouble = self._heard
            self._not_before_s = self._world.clock.monotonic_s() + _ASK_AGAIN_S
        elif status is None:
            self._trouble = "no daemon runs"
        return status

    def _hear(self, why: str) -> None:
        self._heard = why

    def _alone(self) -> Status:
        from fallow.engine.park.record import ParkRecord

        if self._watch is None:
            self._watch = watch(self._world, self._every_s)
        try:
            status = next(self._watch)
        except BaseException:
            self._watch = None  # an iterator that failed yields no more
            raise
        parked = ParkRecord(self._world).read()
        return replace(status, parked=parked) if parked else status

    def _look_of(
        self, status: Status, source: str, rules: tuple[Ruled, ...] | None, daemon: DaemonClient | None
    ) -> Look:
        """Return what is shown with this status."""
        world = self._world
        protections: Sequence[Protection] | Unknown
        try:
            protections = tuple(active_protections(world, daemon))
        except FallowError as error:
            protections = Unknown(str(error))
        pids = {holder.pid for gpu in status.gpus if not isinstance(gpu.holders, Unknown) for holder in gpu.holders}
        starters = {pid: self._starter(pid) for pid in pids} if self._pids_are_ours else {}
        known = {pid: starter for pid, starter in starters.items() if starter is not None}
        old_s = max(0.0, world.clock.wall_s() - status.wall_s)
        past = {} if daemon is None else self._past()
        return Look(status, world.clock.monotonic_s() - old_s, source, rules, protections, known, past)

    def _past(self) -> Mapping[str, Sequence[RecentStep]]:
        """Return the last minutes, once. A daemon that does not tell them is no trouble: the line begins now."""
        if not self._asks_for_past:
            return {}
        found = self._world.daemon(lambda _: None).recent()
        self._asks_for_past = self._asks_for_past - 1 if found is None else 0
        return found or {}

    def _starter(self, pid: int) -> Starter | None:
        """Return how a process was started; None if /proc does not show it."""
        proc = self._world.proc
        stat = proc.stat(pid)
        if stat is None:
            return None
        above = []
        for parent in islice(proc.ancestors(pid), _SHELLS_SHOWN):
            command = proc.command(parent)
            if parent != 1 and not isinstance(command, Unknown):
                above.append((parent, program_name(command)))
        up_s = proc.uptime_s()
        return Starter(stat.session, tuple(above), None if up_s is None else up_s - stat.birth / TICKS_PER_S)
