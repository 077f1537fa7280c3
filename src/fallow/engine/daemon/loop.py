"""The loop of `fallow up`: one look a tick serves fillers, guards, rules, history, metrics and page.

The daemon is a list of parts. In a tick, fillers come first, because they must yield; then guards and idle rules;
then history, counters and the board. Between ticks only fillers are run. All of this runs in the main thread, which
never waits; other threads read the board. A part that fails is reported once, and the others go on.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from signal import SIGHUP

from fallow.actuators.host.sd_notify import ServiceManager
from fallow.core.board import Board
from fallow.core.errors import ConfigWrong, FallowError
from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice
from fallow.core.ports import Depth
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, EVERYTHING, seen_by
from fallow.engine.cluster.watch import ClusterWatch
from fallow.engine.conditions.job import JobConditions
from fallow.engine.config.location import first_there
from fallow.engine.config.model import Config
from fallow.engine.daemon.calls import Calls, Reloaded
from fallow.engine.daemon.fillers import Fillers
from fallow.engine.daemon.parts import Guards, Notices, Part
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.fill.filler import Start, filler_starter
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import open_journal
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.run import Report, Run
from fallow.engine.history.writer import HistoryWriter
from fallow.engine.idle_rules.enforcer import ProcessRules
from fallow.engine.jobs.perform import HostActuators, host_actuators
from fallow.engine.machine.observe import MISSED_LOOKS, Watcher
from fallow.engine.machine.signal_pipe import SignalPipe
from fallow.engine.machine.walls import Walls
from fallow.engine.machine.world import World
from fallow.engine.notify.lost_gpus import LostGpus
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
        starter: Callable[[Run], Start] = filler_starter,
        host: Callable[..., HostActuators] = host_actuators,
    ) -> None:
        """`load` reads the config, now and at every reload.

        `file`: its path. Where there is none, a reload looks for one in `places`.
        `starter` returns what starts fillers, `host` what controls power, runs commands and sends notices.
        """
        self.config = load(file)
        self.file = file
        self.calls = Calls()
        self.when_reloaded: Callable[[bool], None] = lambda _: None
        """Called after each reload, with whether [page] has changed; it must return quickly."""
        self._world = world
        self._load = load
        self._publisher = publisher
        self._say = say
        self._places = places
        self._dry_run = dry_run
        self._manager = ServiceManager(world.environ)
        self._walls = Walls(say)
        self._alive_s: float | None = None
        self._reads = 0
        self._started_wall_s = world.clock.wall_s()
        self._next_tick_s = world.clock.monotonic_s()
        self.journal = open_journal(world, say)
        self._tally = Tally()
        self._watcher = Watcher(world, self._tally.longest_gap_s)
        self._history = HistoryWriter(world.state_folder, say)
        run = Run(world, self.journal, Report(say, self._tally, self._note), dry_run)
        self._notices = Notices(run)
        self._owners = KnownOwners(world, say)
        self.parking = Parking(run, self._owners)
        self._gpu_reader = world.gpu_reader
        self._fillers = Fillers(run, starter(run), self._delay_publishing)
        self._guards = Guards(run, host, self._walls)
        self._rules = ProcessRules(run, self._owners, JobConditions(world, self._owners, say), self.parking)
        self._cluster = ClusterWatch(run)
        lost_gpus = LostGpus(run)
        self._parts = (
            Part("parking", close=self.parking.end),
            Part("filling", self._fillers.change, self._fillers.turn, self._fillers.close, self._fillers.loop.kill),
            Part("the guards", self._guards.change, self._guards.turn, self._guards.close),
            Part(
                "the idle rules",
                lambda config: self._rules.change(config.idle, config.protect, config.machine.every),
                self._rules.turn,
                self._rules.end,
            ),
            Part("the watch for lost GPUs", turn=lost_gpus.turn),
            Part("the cluster", self._cluster.change, lambda _: self._cluster.turn(), self._cluster.end),
            Part("notices", self._notices.change, lambda _: self._notices.turn(), self._notices.close),
            Part("the status", self._change_limits, self._publish, self._history.close),
            Part("the journal", turn=lambda _: self.journal.turn(), close=self.journal.close),
        )
        self._apply(self.config)

    def run(self, signals: SignalPipe) -> int:
        """Run until a signal ends it, and return the signal."""
        self.turn()
        self._manager.ready(self._status())
        while True:
            for number in signals.numbers():
                if number != SIGHUP:
                    return number
                self.reload()
            self.calls.make()
            self.turn()
            due = [self._next_tick_s, *([] if self._alive_s is None else [self._alive_s])]
            self._fillers.loop.wait(min(due), [signals.fd, self.calls.fd])

    def turn(self) -> None:
        """Run a tick if one is due; otherwise run only the fillers."""
        now_s = self._world.clock.monotonic_s()
        if now_s >= self._next_tick_s:
            self._next_tick_s = max(self._next_tick_s + self.config.machine.every, now_s)
            self._tick()
        else:
            with self._walls.around("filling", self._fillers.loop.kill):
                self._fillers.loop.turn()
        self._say_alive(now_s)

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
        page_changed = config.page != self.config.page
        self.file, self.config = file, config
        self._apply(config)
        sentence = "config reloaded" if file is not None else _without(self._places)
        self._say(f"{sentence} {number}")
        self.when_reloaded(page_changed)
        self._manager.ready(self._status())
        return Reloaded(True, sentence, file)

    def wake(self, wish: WakeWish) -> Woken:
        """Begin to wake the parked jobs that are meant."""
        return begin_waking(self.parking, wish, cache(partial(gpus_now, self._world)))

    def past(self) -> HistoryReader:
        """Return a reader of history."""
        return self._history.past()

    def end(self) -> None:
        """Ask all fillers to leave, kill those that do not, and close everything."""
        self._manager.stopping()
        for part in self._parts:
            with self._walls.around(part.name, part.otherwise):
                part.close()
        self.calls.close()
        self._manager.close()

    def _apply(self, config: Config) -> None:
        """Apply a config. What has not changed in it keeps its state."""
        for part in self._parts:
            with self._walls.around(f"{part.name}, with this config,", part.otherwise):
                part.change(config)

    def _tick(self) -> None:
        with self._walls.around("looking"):  # what could not be read is unknown: no job is judged by it
            described = self._gpu_reader.describe(self._gpu_reader.look(Depth.ALL))
            snapshot = replace(described, gpus=with_names(self._owners, described.gpus))
            for part in self._parts:
                with self._walls.around(part.name, part.otherwise):
                    part.turn(snapshot)

    def _note(self, notice: Notice) -> str:
        return self._notices.note(notice)

    def _delay_publishing(self) -> None:
        """Delay publishing, because a newcomer may have come and the yield is more urgent."""
        self._publisher.paused_until_s = self._world.clock.monotonic_s() + _QUIET_S

    def _change_limits(self, config: Config) -> None:
        """Count no gap between looks that is longer than three of them, and keep history for so long."""
        gap_s = config.machine.every * MISSED_LOOKS
        self._tally.longest_gap_s = gap_s
        self._watcher.change(gap_s)
        self._history.change(config.history.keep_for / _DAY_S, gap_s)

    def _publish(self, snapshot: Snapshot) -> None:
        """Add what was seen to history and counters, and show it."""
        fillers, machine = self._fillers.loop, self.config.machine
        status = self._watcher.status(snapshot)
        status = replace(status, parked=self.parking.jobs)
        self._history.record(status)
        self._tally.witness(status, snapshot.at_s)
        board = Board(
            seen_by(status, EVERYTHING if machine.commands_shown else ANYBODY),
            tuple(slot.view(snapshot.at_s) for slot in fillers.slots),
            self._guards.views,
            tuple(fillers.protections),
            self._tally.counts(),
            self._started_wall_s,
            self.file,
            self._dry_run,
            status,
            machine.commands_shown,
            counting=self._rules.counting,
            prices=machine.all_prices,
            protected=self.config.protect.for_good,
            cluster=self._cluster.board,
        )
        self._publisher.publish(board)
        self._manager.status(self._status())

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
        at_work = sum(slot.filled for slot in self._fillers.loop.slots)
        fillers = "1 filler at work" if at_work == 1 else f"{at_work} fillers at work"
        return f"{many}: {board.status.in_words}; {fillers}"


def _without(places: Sequence[str]) -> str:
    """Return the sentence on a reload that found no config, with the places where one would be found."""
    there = f": there is none at {' or '.join(places)}" if places else ""
    return f"reloaded without a config{there}"
