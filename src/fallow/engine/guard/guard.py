"""The guard loop: it reads the GPUs and the reasons against acting, decides, acts once, and records what it did."""

from collections.abc import Sequence
from typing import assert_never

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.actions import (
    Announce,
    CallOff,
    EndGuard,
    HostAction,
    Notify,
    PowerOff,
    Reboot,
    RunCommand,
    SendSignal,
    in_words,
)
from fallow.core.board import GuardView
from fallow.core.errors import WrongUsage
from fallow.core.findings import Outcome, Verdict
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import stretch_load
from fallow.core.notices import Notice
from fallow.core.ports import Depth
from fallow.core.protections import Affected, Protection
from fallow.core.reasons import Reason
from fallow.core.selection import select
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.conditions.rate import Condition
from fallow.engine.guard.attached import Attached
from fallow.engine.history.run import Run
from fallow.engine.jobs.executor import Executor, Then
from fallow.engine.jobs.perform import HostActuators, perform, touches_machine
from fallow.engine.jobs.protections import affected_processes, labels_with_cards, uuids_with_cards
from fallow.policies import guard
from fallow.policies.arbiter import leave_alone, why_refused


class GuardLoop:
    """Runs one guard, from its start until it has acted."""

    def __init__(
        self,
        run: Run,
        rules: guard.GuardRules,
        actuators: HostActuators,
        executor: Executor,
        *,
        name: str = "guard",
        gpus: str | None = None,
        attached: Attached | None = None,
        conditions: Sequence[Condition] = (),
        armed: bool = False,
    ) -> None:
        """`armed`: act without waiting for work first."""
        demand_own_pids(run.world.proc)
        self.name = name
        self._world = run.world
        self._rules = rules
        self._actuators = actuators
        self._journal = run.journal
        self._say = run.say
        self._report = run.report
        self._is_dry_run = run.dry_run
        self._gpus = gpus
        self._attached = attached
        self._conditions = conditions
        self._executor = executor
        self._state = guard.State(guard.Phase.ARMED) if armed else guard.State()
        self._reason = Reason("not_read_yet")
        self._uuids: tuple[str, ...] = ()
        self._outcome: Outcome | None = None
        self._paused = False
        self._reported_protection = False

    def change(self, longest_gap_s: float) -> None:
        """Count no gap between looks that is longer than this, from now on. Its state stays."""
        self._rules = replace(self._rules, longest_gap_s=longest_gap_s)

    def check(self) -> None:
        """Raise WrongUsage if a GPU to be watched is not there: at the start, not when work ends."""
        self._watched(self._world.gpu_reader.look(Depth.HOLDERS))

    def run(self, every_s: float) -> None:
        """Run until all actions are done or given up. An interrupt in a countdown calls them off."""
        try:
            while not self.turn(self._world.gpu_reader.look(Depth.ALL)):
                self._world.clock.sleep(every_s)
        finally:
            self.call_off("the guard was ended")

    def call_off(self, because: str) -> None:
        """Announce to the people at terminals that an announced action does not follow."""
        if self._state.phase in (guard.Phase.COUNTDOWN, guard.Phase.ACTING):
            self._announce_to_terminals(f"called off: {because}")

    @property
    def given_up(self) -> list[str]:
        """Return the actions that were given up, in words."""
        return [in_words(self._rules.actions[index]) for index in self._state.given_up]

    @property
    def view(self) -> GuardView:
        """Return the state of the guard for status and page."""
        return GuardView(self.name, self._state.phase.value, self._reason, self._uuids)

    def turn(self, snapshot: Snapshot, protections: Sequence[Protection] | None = None) -> bool:
        """Decide and act on one snapshot; return whether all is done.

        `protections` are those that were read at the same tick. They are read again before an action.
        """
        watched, loads = self._loads(snapshot)
        self._uuids = tuple(str(gpu.uuid) for gpu in watched)
        blockers: list[Reason | Unknown] = []
        for condition in self._conditions:
            why = condition()
            if why is not None:
                blockers.append(why)
        if protections is None:
            protections = self._protections()
        alone = leave_alone(self._affected(watched), self._world.clock.wall_s(), protections) if protections else None
        if alone is not None:
            blockers.append(alone)
        self._executor.collect()
        before = self._state
        decision = guard.step(before, snapshot.at_s, loads, blockers, self._rules)
        self._apply(before, decision, watched, snapshot.at_s)
        self._report_protection(before, decision, alone, watched)
        # The next action may follow at once on one that is done.
        while self._state.under_way and self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            before = self._state
            self._apply(before, guard.came_of(before, outcome, self._rules), watched, snapshot.at_s)
        return self._state.phase is guard.Phase.ACTED

    def _loads(self, snapshot: Snapshot) -> tuple[tuple[Gpu, ...], guard.Loads]:
        """Return the watched GPUs and how much ran on each. A GPU that has disappeared is unknown, not quiet."""
        try:
            watched = self._watched(snapshot)
        except WrongUsage as error:
            return (), {str(self._gpus): Unknown(str(error))}
        return watched, {gpu.label: stretch_load(gpu) for gpu in watched}

    def _apply(self, before: guard.State, decision: guard.Decision, watched: Sequence[Gpu], at_s: float) -> None:
        self._state, self._reason = decision.state, decision.reason
        self._report_pause(decision)
        keys = [f"gpu:{gpu.uuid}" for gpu in watched]
        if decision.failed:
            self._say(decision.because)
        if decision.state.phase is not before.phase:
            if decision.state.phase is guard.Phase.ARMED:
                # The other phases show in what is announced and done in them.
                self._say(f"{decision.state.phase}: {decision.because}")
            evidence = tuple((f"GPU {gpu.label}", _load_in_words(stretch_load(gpu))) for gpu in watched)
            self._journal.verdict(Verdict(self.name, decision.state.phase, decision.reason, evidence), keys)
        for action in decision.actions:
            match action:
                case Announce():
                    self._announce(action, keys)
                case CallOff(reason=reason):
                    self._journal.action(self.name, in_words(action), reason, keys)
                    self._announce_to_terminals(f"called off: {reason}")
                    self._say(f"called off: {reason}")
                case EndGuard() | SendSignal() | RunCommand() | Notify() | PowerOff() | Reboot():
                    self._begin(action, self._affected(watched), at_s, keys)
                case _:
                    assert_never(action)

    def _report_pause(self, decision: guard.Decision) -> None:
        """Report once that the guard is paused because something cannot be read, and once that it no longer is."""
        paused = decision.reason.kind == "paused"
        if paused is not self._paused:
            self._say(f"{decision.state.phase}, {decision.because}" if paused else "no longer paused")
        self._paused = paused

    def _report_protection(
        self, before: guard.State, decision: guard.Decision, alone: Reason | None, watched: Sequence[Gpu]
    ) -> None:
        """Report once a phase that a protection keeps the guard from acting, so that no user can fill the log."""
        blocked = decision.reason == alone
        if decision.state.phase is not before.phase:
            self._reported_protection = blocked  # that it was called off is reported already
        elif blocked and not self._reported_protection:
            self._reported_protection = True
            keys = [f"gpu:{gpu.uuid}" for gpu in watched]
            self._journal.refusal(self.name, _in_order(self._left), decision.reason, keys)
            self._say(f"{decision.state.phase}, and does nothing while this lasts: {decision.because}")

    def _announce(self, action: Announce, keys: list[str]) -> None:
        left, actions, in_s = self._left, _in_order(self._left), action.in_s
        when = f"in {duration_for_people(in_s)}. To prevent it: fallow protect --for 1h" if in_s else "now"
        stays_on = touches_machine(left) and self._world.simulated is not None
        text = f"{action.reason}: {'would' if self._is_dry_run or stays_on else 'about to'} {actions} {when}"
        self._journal.action(self.name, f"announce: {actions}", action.reason, keys)
        self._say(text)
        if touches_machine(left):
            self._report.notify(Notice("going_down", "machine", text))
        self._announce_to_terminals(
            text, lambda outcome: self._journal.outcome(self.name, f"announce: {actions}", outcome.words, keys)
        )

    @property
    def _left(self) -> tuple[HostAction, ...]:
        return self._rules.actions[self._state.turn :]

    def _announce_to_terminals(self, text: str, then: Then = lambda _: None) -> None:
        """Announce to all people at terminals, but only what ends the work of all."""
        if touches_machine(self._rules.actions):
            self._executor.begin(lambda: self._actuators.power.announce(text), then)
        else:
            then(Outcome(True, text))

    def _begin(self, action: HostAction, affected: Affected, at_s: float, keys: list[str]) -> None:
        words, kind = in_words(action), type(action).__name__.lower()
        wall_s = self._world.clock.wall_s()
        refused = why_refused(action, affected, at_s=at_s, wall_s=wall_s, protections=self._protections())
        if refused is not None:
            self._journal.refusal(self.name, words, refused, keys)
            self._report.tally.action(kind, "refused")
            self._outcome = Outcome(False, f"refused: {refused}")
            return
        self._journal.action(self.name, words, action.reason, keys)

        def record(outcome: Outcome) -> None:
            self._outcome = outcome
            result = "dry_run" if self._is_dry_run else "done"
            self._report.tally.action(kind, result if outcome.ok else "failed")
            self._journal.outcome(self.name, words, outcome.words, keys)
            if outcome.ok:
                self._say(outcome.words)  # a failure is reported with what follows from it

        title = f"fallow: {'the guard' if self.name == 'guard' else self.name} acts"
        self._executor.begin(lambda: perform(action, self._actuators, self._world.environ, self._send, title), record)

    def _send(self, name: str) -> Outcome:
        if self._attached is None:
            return Outcome(False, "no process was named with --attach")
        return self._attached.send(name)

    def _watched(self, snapshot: Snapshot) -> tuple[Gpu, ...]:
        return snapshot.gpus if self._gpus is None else select(self._gpus, snapshot.gpus)

    def _affected(self, watched: Sequence[Gpu]) -> Affected:
        attached = self._attached
        processes = () if attached is None else affected_processes(self._world, attached.tree, watcher=False)
        return Affected(
            uuids_with_cards(watched),
            processes,
            machine=touches_machine(self._rules.actions),
            labels=labels_with_cards(watched),
        )

    def _protections(self) -> list[Protection]:
        return self._world.protections.active(self._world.clock.wall_s(), self._say)


def _in_order(actions: Sequence[HostAction]) -> str:
    return ", then ".join(in_words(action) for action in actions)


def _load_in_words(load: float | Unknown) -> str:
    return str(load) if isinstance(load, Unknown) else f"ran {load:.1%} of the time"
