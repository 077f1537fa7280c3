"""What goes round the machine beside fillers and guards: the patrol, who looks for lost cards, and the notices."""

from collections.abc import Mapping

from fallow.core.board import Counting
from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice
from fallow.core.reservations import Reservations
from fallow.engine.config import Config
from fallow.engine.history.run import Run
from fallow.engine.idle_rules.enforcer import RuleEnforcer, enforcer_for_processes
from fallow.engine.notify.lost_gpus import LostGpus
from fallow.engine.notify.notifier import Notifier, notifier_for


class Rounds:
    """All of that, as the config in force has it."""

    def __init__(self, run: Run, config: Config) -> None:
        self._run = run
        self._config = config
        self._notices = self._make_notices(config)
        self._patrol = self._make_patrol(config)
        self._lost_cards = LostGpus(run)

    def change(self, config: Config) -> None:
        """Go by this config from now on. What is not changed goes on where it stands."""
        before, self._config = self._config, config
        if config.notices != before.notices:
            self._notices.close()
            self._notices = self._make_notices(config)
        rules, rules_before = ((each.idle, each.protect, each.notices, each.machine) for each in (config, before))
        if rules != rules_before:
            self._patrol = self._make_patrol(config)

    def note(self, notice: Notice) -> None:
        """Something that people asked to be told of."""
        self._notices.note(notice)

    @property
    def counting(self) -> tuple[Counting, ...]:
        """What the idle rules count."""
        return self._patrol.counting

    def turn(self, snapshot: Snapshot, reservations: Mapping[str, Reservations]) -> None:
        """One tick, with holders that are described, and with what was read of claims at it, by UUID."""
        self._patrol.turn(snapshot, reservations)
        self._lost_cards.turn(snapshot)
        self._notices.turn()

    def close(self) -> None:
        """Send what waits, in a little time."""
        self._notices.close()

    def _make_notices(self, config: Config) -> Notifier:
        section = config.notices
        return notifier_for(self._run, section.urls, section.rules)

    def _make_patrol(self, config: Config) -> RuleEnforcer:
        return enforcer_for_processes(self._run, config.idle, config.protect, config.machine.every)
