"""What the daemon does at each tick beside fillers and guards: idle rules, lost GPUs and notices."""

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
    """Runs idle rules, the check for lost GPUs and the notifier, as the current config says."""

    def __init__(self, run: Run, config: Config) -> None:
        self._run = run
        self._config = config
        self._notices = self._make_notices(config)
        self._enforcer = self._make_enforcer(config)
        self._lost_gpus = LostGpus(run)

    def change(self, config: Config) -> None:
        """Apply another config. What has not changed in it keeps its state."""
        before, self._config = self._config, config
        if config.notices != before.notices:
            self._notices.close()
            self._notices = self._make_notices(config)
        rules, rules_before = ((each.idle, each.protect, each.notices, each.machine) for each in (config, before))
        if rules != rules_before:
            self._enforcer = self._make_enforcer(config)

    def note(self, notice: Notice) -> None:
        """Send a notice."""
        self._notices.note(notice)

    @property
    def counting(self) -> tuple[Counting, ...]:
        """Return what the idle rules count."""
        return self._enforcer.counting

    def turn(self, snapshot: Snapshot, reservations: Mapping[str, Reservations]) -> None:
        """Run one tick, with a snapshot whose holders are described and the reservations read at it, by UUID."""
        self._enforcer.turn(snapshot, reservations)
        self._lost_gpus.turn(snapshot)
        self._notices.turn()

    def close(self) -> None:
        """Send the notices that wait, within a few seconds."""
        self._notices.close()

    def _make_notices(self, config: Config) -> Notifier:
        section = config.notices
        return notifier_for(self._run, section.urls, section.rules)

    def _make_enforcer(self, config: Config) -> RuleEnforcer:
        return enforcer_for_processes(self._run, config.idle, config.protect, config.machine.every)
