"""The loop of `fallow up`: one look a tick serves fillers, guards, rules, history, metrics and page.

In a tick, fillers come first, because they must yield; then guards and idle rules; then history, counters and the
board. Between ticks only fillers are run. All of this runs in the main thread; other threads read the board. A part
that fails is reported and does not keep the others from their turn.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from signal import SIGHUP

from fallow.actuators.host.sd_notify import ServiceManager
from fallow.core.board import Board
from fallow.core.errors import ConfigWrong, FallowError
from fallow.core.gpu import Snapshot
from fallow.core.gpu_status import Status
from fallow.core.notices import Notice
from fallow.core.ports import Depth
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, EVERYTHING, seen_by
from fallow.engine.cluster.watch import ClusterWatch
from fallow.engine.conditions.job import JobConditions
from fallow.engine.config.location import first_there
from fallow.engine.config.model import Config
from fallow.engine.config.rules import Guard
from fallow.engine.daemon.build import Actuators, DaemonBuilder
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.daemon.reload import Reloaded, Requests
from fallow.engine.fill.loop import FillLoop
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import open_journal
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.run import Report, Run
from fallow.engine.history.writer import HistoryWriter
from fallow.engine.idle_rules.enforcer import ProcessRules
from fallow.engine.machine.observe import MISSED_LOOKS, Watcher
from fallow.engine.machine.signal_pipe import SignalPipe
from fallow.engine.machine.walls import Walls
from fallow.engine.machine.world import World
from fallow.engine.notify.lost_gpus import LostGpus
from fallow.engine.notify.notifier import notifier_for
from fallow.engine.notify.people import People
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.names import with_names
from fallow.engine.park.parking import Parking
from fallow.engine.park.room import gpus_now
from fallow.engine.park.wishes import WakeWish, Woken, begin_waking

_DAY_S = 86_400.0
_QUIET_S = 0.03  # longer than it takes to distinguish a newcomer from a monitor, and to ask a filler to leave


class Daemon:
    """Runs everything that `fallow up` does, from its start to its end."""

    def __init__(
        self,
        world: World,
        load: Callable[[str | None], Config],
        publisher: Publisher,
        say: Callable[[str], None],
        *,
        file: str | None = None,
        places: Sequence[str] = (),
        dry_run: bool = False,
        actuators: Actuators | None = None,
    ) -> None:
        """`load` reads the config, now and at every reload.

        `file`: its path. Where there is none, a reload looks for one in `places`.
        """
        self._world = world
        self._load = load
        self._publisher = publisher
        self._say = say
        self.file = file
        self._places = places
        self._dry_run = dry_run
        self._manager = ServiceManager(world.environ)
        self._alive_s: float | None = None
        self.reloads = Requests[None, Reloaded]()
        self.wakes = Requests[WakeWish, Woken]()
        self._reads = 0
        self._started_wall_s = world.clock.wall_s()
        self.journal = open_journal(world, say)
        self._tally = Tally()
        self._watcher = Watcher(world, self._tally.longest_gap_s)
        report = Report(say, self._tally, self._notify)
        self._run = run = Run(world, self.journal, report, dry_run)
        self.config = Config()
        self._notifier = notifier_for(run, self.config.notices.urls, self.config.notices.rules)
        self._people = People(run, self.config.notices.people_rules)
        self._owners = KnownOwners(world, say)
        self._conditions = JobConditions(world, self._owners, say)
        self.parking = Parking(run, self._owners)
        self._enforcer = ProcessRules(run, self._owners, self._conditions, self.parking)
        self._lost_gpus = LostGpus(run)
        self._builder = DaemonBuilder(run, actuators or Actuators())
        self._uuids: frozenset[str] = frozenset()
        self._guards: list[tuple[Guard, GuardLoop]] = []
        self._fill_loop = FillLoop(run, (), alert=self._delay_publishing)
        self.cluster = ClusterWatch(run)
        config = self._load(file)
        snapshot = world.gpu_reader.look(Depth.ALL)
        keep_days, gap_s = _history_limits(config)
        self._history = HistoryWriter(world.state_folder, say, keep_days=keep_days, longest_gap_s=gap_s)
        self._apply(config, snapshot)
        self._next_tick_s = world.clock.monotonic_s()
        self._walls = Walls(say)
        self.when_reloaded: Callable[[bool], None] = lambda _: None
        """Called after each reload, with whether [page] has changed; it must return quickly."""

    def run(self, signals: SignalPipe) -> int:
        """Run until a signal ends it, and return the signal."""
        self.turn()
        self._manager.ready(self._status())
        while True:
            for number in signals.numbers():
                if number != SIGHUP:
                    return number
                self.reload()
            self._answer_reloads()
            self._answer_wakes()
            self.turn()
            due = [self._next_tick_s, *([] if self._alive_s is None else [self._alive_s])]
            self._fill_loop.wait(min(due), [signals.fd, self.reloads.fd, self.wakes.fd])

    def turn(self) -> None:
        """Run a tick if one is due; otherwise run only the fillers."""
        now_s = self._world.clock.monotonic_s()
        if now_s >= self._next_tick_s:
            self._next_tick_s = max(self._next_tick_s + self.config.machine.every, now_s)
            with self._walls.around("looking", errors=(OSError, MemoryError)):
                self._tick()  # what could not be read is unknown: no job is judged by it
        else:
            with self._around_fillers():
                self._fill_loop.turn()
        self._say_alive(now_s)

    def _answer_reloads(self) -> None:
        """Reload the config for the requests that wait for it, and answer them."""
        waiting = [each for _, each in self.reloads.asked() if each.set_running_or_notify_cancel()]
        if waiting:
            reloaded = self.reload()
            for each in waiting:
                each.set_result(reloaded)

    def _answer_wakes(self) -> None:
        """Begin to wake the jobs that people want to wake, and answer them."""
        look = cache(partial(gpus_now, self._world))
        for wish, waiting in self.wakes.asked():
            if waiting.set_running_or_notify_cancel():
                try:
                    waiting.set_result(begin_waking(self.parking, wish, look))
                except FallowError as error:
                    waiting.set_exception(error)
                except (OSError, MemoryError):
                    waiting.set_exception(FallowError("the system gives the daemon no more", "try again soon"))

    def reload(self) -> Reloaded:
        """Read the config again and apply it. The mistakes of a wrong one are reported, and the old one stays."""
        self._manager.reloading(self._world.clock.monotonic_s())
        self._reads += 1
        number = f"(reload {self._reads})"  # so that no line is left out as one that repeats the last
        file = self.file or first_there(self._places)
        try:
            config = self._load(file)
        except FallowError as error:
            sentence = f"the config is not loaded, and the old one stays in force: {error}"
            mistakes = error.mistakes if isinstance(error, ConfigWrong) else ()
            self._say(f"{sentence} {number}")
            for mistake in mistakes:
                self._say(mistake.in_file(str(file)))
            self._manager.ready(self._status())
            return Reloaded(False, sentence, file, mistakes)
        self.file = file
        self._history.change(*_history_limits(config))
        page_changed = config.page != self.config.page
        self._apply(config, self._world.gpu_reader.look(Depth.ALL))
        sentence = "config reloaded" if file is not None else _without(self._places)
        self._say(f"{sentence} {number}")
        self.when_reloaded(page_changed)
        self._manager.ready(self._status())
        return Reloaded(True, sentence, file)

    def end(self) -> None:
        """Ask all fillers to leave, kill those that do not, and close everything."""
        self._manager.stopping()
        self.parking.end()
        try:
            self._fill_loop.end()
            for _, guard_loop in self._guards:
                guard_loop.end("fallow up was ended")
            self._enforcer.end()
        finally:
            self._fill_loop.close()
            self.cluster.end()
            self._notifier.close()  # it sends the notices that wait, within a few seconds
            self._people.close()
            self._history.close()
            self.journal.close()
            self.reloads.close()
            self.wakes.close()
            self._manager.close()

    def _notify(self, notice: Notice) -> str:
        self._notifier.note(notice)
        return self._people.note(notice)

    def _delay_publishing(self) -> None:
        """Delay publishing, because a newcomer may have come and the yield is more urgent."""
        self._publisher.paused_until_s = self._world.clock.monotonic_s() + _QUIET_S

    def _apply(self, config: Config, snapshot: Snapshot) -> None:
        """Apply a config. What has not changed in it keeps its state."""
        before, self.config = self.config, config
        gap_s = config.machine.every * MISSED_LOOKS
        self._tally.longest_gap_s = gap_s
        self._watcher.change(gap_s)
        if config.notices != before.notices:
            self._notifier.close()
            self._notifier = notifier_for(self._run, config.notices.urls, config.notices.rules)
            self._people.close()
            self._people = People(self._run, config.notices.people_rules)
        rules, rules_before = ((each.idle, each.protect, each.machine.every) for each in (config, before))
        if rules != rules_before:
            self._enforcer.change(*rules)
        self.cluster.change(config)
        guards_before, self._guards = self._guards, self._builder.guards(config, self._guards)
        for _, guard_loop in guards_before:
            if all(guard_loop is not kept for _, kept in self._guards):
                guard_loop.call_off("it is not in the config any more")
        self._assign_slots(snapshot)

    def _assign_slots(self, snapshot: Snapshot) -> None:
        self._uuids = _uuids(snapshot)
        self._fill_loop.change(self._builder.slots(self.config, snapshot.gpus, self._fill_loop.slots))

    def past(self) -> HistoryReader:
        """Return a reader of history."""
        return self._history.past()

    def _tick(self) -> None:
        gpu_reader = self._world.gpu_reader
        snapshot = gpu_reader.describe(gpu_reader.look(Depth.ALL))
        snapshot = replace(snapshot, gpus=with_names(self._owners, snapshot.gpus))
        around = self._walls.around
        with self._around_fillers():
            if not _uuids(snapshot) <= self._uuids:
                self._assign_slots(snapshot)  # a GPU that was not there before, or without a UUID
            self._fill_loop.tick(snapshot)
        for guard, guard_loop in self._guards:
            with around(f"guard {guard.name}"):
                guard_loop.turn(snapshot, self._fill_loop.protections)
        with around("the idle rules"):
            self._enforcer.turn(snapshot, self._fill_loop.reservations)
        with around("the watch for lost GPUs"):
            self._lost_gpus.turn(snapshot)
        for part, turn in (
            ("the cluster", self.cluster.turn),
            ("notices", self._notifier.turn),
            ("notices to people", self._people.turn),
            ("the journal", self.journal.turn),
        ):
            with around(part):
                turn()
        with around("the status"):
            self._publish(snapshot)

    def _around_fillers(self) -> AbstractContextManager[None]:
        """Return the wall around fillers: they end where they can no longer be told to leave."""
        return self._walls.around("filling", self._fill_loop.kill)

    def _publish(self, snapshot: Snapshot) -> None:
        """Add what was seen to history and counters, and show it."""
        status = self._watcher.status(snapshot, self._fill_loop.reservations)
        status = replace(status, parked=self.parking.jobs)
        shown = seen_by(status, EVERYTHING if self.config.machine.commands_shown else ANYBODY)
        self._history.record(status)
        self._tally.witness(status, snapshot.at_s)
        self._publisher.publish(self._board(shown, status, snapshot.at_s))
        if self._manager.listens:
            self._manager.status(self._status())

    def _board(self, shown: Status, status: Status, at_s: float) -> Board:
        return Board(
            shown,
            tuple(slot.view(at_s) for slot in self._fill_loop.slots),
            tuple(guard_loop.view for _, guard_loop in self._guards),
            tuple(self._fill_loop.protections),
            self._tally.counts(),
            self._started_wall_s,
            self.file,
            self._dry_run,
            status,
            self.config.machine.commands_shown,
            counting=self._enforcer.counting,
            prices=self.config.machine.all_prices,
            protected=self.config.protect.for_good,
            cluster=self.cluster.board,
        )

    def _say_alive(self, now_s: float) -> None:
        """Report to the service manager that the loop still runs, twice in each period of its watchdog."""
        if self._manager.watchdog_s is None or (self._alive_s is not None and now_s < self._alive_s):
            return
        self._manager.alive()
        self._alive_s = now_s + self._manager.watchdog_s / 2

    def _status(self) -> str:
        """Return the status for systemd: `8 GPUs: 6 available (4 free, 2 filled), 2 busy; 2 fillers at work`."""
        board = self._publisher.board
        if board is None:
            return "looking for the first time"
        number = len(board.status.gpus)
        many = "1 GPU" if number == 1 else f"{number} GPUs"
        at_work = sum(slot.filled for slot in self._fill_loop.slots)
        fillers = "1 filler at work" if at_work == 1 else f"{at_work} fillers at work"
        return f"{many}: {board.status.in_words}; {fillers}"


def _without(places: Sequence[str]) -> str:
    """Return the sentence on a reload that found no config, with the places where one would be found."""
    there = f": there is none at {' or '.join(places)}" if places else ""
    return f"reloaded without a config{there}"


def _history_limits(config: Config) -> tuple[float, float]:
    """Return for how many days history is kept, and the longest gap in it that is witnessed."""
    return config.history.keep_for / _DAY_S, config.machine.every * MISSED_LOOKS


def _uuids(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(gpu.uuid for gpu in snapshot.gpus if isinstance(gpu.uuid, str))
