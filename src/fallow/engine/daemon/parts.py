"""The parts of the daemon: what each does when the config changes, at each look, and at the end."""

from collections.abc import Callable

from fallow.core.board import GuardView
from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice
from fallow.core.value import replace
from fallow.engine.config.model import Config
from fallow.engine.config.rules import Guard
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.perform import HostActuators
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.walls import Walls
from fallow.engine.notify.notifier import Notifier, notifier_for
from fallow.engine.notify.people import People

_LEAVES_WITHIN_S = 0.4
"""How long the loop waits for the last notices of an old config."""


class Part:
    """One part; each of the three functions may be left out."""

    def __init__(
        self,
        name: str,
        change: Callable[[Config], None] = lambda _: None,
        turn: Callable[[Snapshot], None] = lambda _: None,
        close: Callable[[], None] = lambda: None,
        otherwise: Callable[[], None] = lambda: None,
    ) -> None:
        """`otherwise` is called where one of the others fails."""
        self.name = name
        self.change = change
        self.turn = turn
        self.close = close
        self.otherwise = otherwise


class Guards:
    """All guards of the config."""

    def __init__(self, run: Run, host: Callable[..., HostActuators], walls: Walls) -> None:
        self._run = run
        self._host = host
        self._walls = walls
        self._guards: dict[str, tuple[Guard, GuardLoop]] = {}

    @property
    def views(self) -> tuple[GuardView, ...]:
        """Return the state of each guard."""
        return tuple(guard.view for _, guard in self._guards.values())

    def change(self, config: Config) -> None:
        """Apply a config. A guard whose definition is the same keeps its state."""
        gap_s = config.machine.every * MISSED_LOOKS
        before, self._guards = self._guards, {}
        for wanted in config.guards:
            with self._walls.around(f"guard {wanted.name}, with this config,"):
                known, guard = before.get(wanted.name, (None, None))
                if guard is None or known != wanted:
                    guard = self._begun(wanted, gap_s)
                guard.change(gap_s)
                self._guards[wanted.name] = (wanted, guard)
        for name, (_, guard) in before.items():
            if name not in self._guards or self._guards[name][1] is not guard:
                guard.call_off("it is not in the config any more")

    def turn(self, snapshot: Snapshot) -> None:
        """Let each guard decide and act."""
        for name, (_, guard) in self._guards.items():
            with self._walls.around(f"guard {name}"):
                guard.turn(snapshot)

    def close(self) -> None:
        """Call off what was announced."""
        for name, (_, guard) in self._guards.items():
            with self._walls.around(f"guard {name}"):
                guard.end("fallow up was ended")

    def _begun(self, wanted: Guard, gap_s: float) -> GuardLoop:
        report = self._run.report.prefixed(f"{wanted.name}: ")
        if wanted.dry_run:
            report = Report(report.say, report.tally)  # without notices, which a daemon that acts would send
        return GuardLoop(
            replace(self._run, report=report, dry_run=self._run.dry_run or wanted.dry_run),
            wanted.rules(gap_s),
            name=wanted.name,
            gpus=None if wanted.gpus == "all" else wanted.gpus,
            unless=wanted.unless,
            user=wanted.user,
            checked=True,  # with the config; checking at every reload would delay a yield
            host=self._host,
        )


class Notices:
    """Notices to services and to people, as the config has them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = Config().notices
        self._notifier, self._people = self._opened()

    def note(self, notice: Notice) -> str:
        """Queue a notice; return how the person whom it is about is told."""
        self._notifier.note(notice)
        return self._people.note(notice)

    def change(self, config: Config) -> None:
        """Apply a config; what waits is sent as the one before has it."""
        if config.notices != self._config:
            self._config = config.notices
            self._notifier.close(_LEAVES_WITHIN_S)
            self._people.close(_LEAVES_WITHIN_S)
            self._notifier, self._people = self._opened()

    def turn(self) -> None:
        """Send what is due."""
        self._notifier.turn()
        self._people.turn()

    def close(self) -> None:
        """Send what waits, within a few seconds."""
        self._notifier.close()
        self._people.close()

    def _opened(self) -> tuple[Notifier, People]:
        config = self._config
        return notifier_for(self._run, config.urls, config.rules), People(self._run, config.people_rules)
