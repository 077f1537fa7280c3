"""The guard loop: it reads the GPUs and the reasons against acting, decides, acts once, and records what it did."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.actions import Announce, CallOff, HostAction, in_words
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
from fallow.engine.conditions.machine import parse_unless
from fallow.engine.guard.attached import Attached
from fallow.engine.history.run import Run
from fallow.engine.jobs.perform import (
    HostActuators,
    host_actuators,
    nobody_to_signal,
    perform,
    refuse,
    shortcomings,
    touches_machine,
)
from fallow.engine.jobs.protections import affected_processes, labels_with_cards, uuids_with_cards
from fallow.policies import guard
from fallow.policies.arbiter import leave_alone, why_refused

_LAST_WORDS_S = 5.0
"""How long the end waits for what is still being announced."""


class GuardLoop:
    """Runs one guard, from its start until it has acted."""

    def __init__(
        self,
        run: Run,
        rules: guard.GuardRules,
        *,
        name: str = "guard",
        gpus: str | None = None,
        attach: int | None = None,
        unless: Sequence[str] = (),
        user: str | None = None,
        armed: bool = False,
        checked: bool = False,
        host: Callable[..., HostActuators] = host_actuators,
    ) -> None:
        """Raise FallowError if a GPU is not there or an action can never be done here, unless that is `checked`.

        `attach`: the process that a signal goes to. `user`: whom commands run as. `armed`: act without waiting for
        work first. `host` returns what the guard acts with.
        """
        demand_own_pids(run.world.proc)
        self.name = name
        self.given_up: list[str] = []
        """The actions that were given up, in words."""
        self._run = run
        self._world = run.world
        self._rules = rules
        self._gpus = gpus
        self._attached = None if attach is None else Attached(run.world, attach)
        self._actuators = host(run.world, dry_run=run.dry_run, user=user)
        self._conditions = [parse_unless(text, run.world) for text in unless]
        self._state = guard.State(guard.Phase.ARMED if armed else guard.Phase.IDLE)
        self._reason = Reason("not_read_yet")
        self._watched: tuple[Gpu, ...] = ()
        self._begun: list[tuple[Future[Outcome], Callable[[Outcome], None]]] = []
        self._under_way: HostAction | None = None
        self._held = ""
        if not checked:
            signals = nobody_to_signal if self._attached is None else self._attached.shortcoming
            found = shortcomings(rules.actions, self._actuators, run.world.environ, signals)
            refuse(found, run.say, dry_run=run.dry_run)
            self._select(run.world.gpu_reader.look(Depth.HOLDERS))

    def change(self, longest_gap_s: float) -> None:
        """Count no gap between looks that is longer than this, from now on. Its state stays."""
        self._rules = replace(self._rules, longest_gap_s=longest_gap_s)

    def run(self, every_s: float) -> None:
        """Run until all actions are done or given up. An interrupt in a countdown calls them off."""
        try:
            while not self.turn(self._world.gpu_reader.look(Depth.ALL)):
                if self._begun:
                    wait([future for future, _ in self._begun], every_s)
                else:
                    self._world.clock.sleep(every_s)
        finally:
            self.end("the guard was ended")

    def call_off(self, because: str) -> None:
        """Announce to the people at terminals that an announced action does not follow."""
        if self._state.phase in (guard.Phase.COUNTDOWN, guard.Phase.ACTING):
            self._announce_to_terminals(f"called off: {because}")

    def end(self, because: str) -> None:
        """Call off what was announced, and wait a moment until that is known."""
        before = len(self._begun)
        self.call_off(because)
        wait([future for future, _ in self._begun[before:]], _LAST_WORDS_S)

    @property
    def view(self) -> GuardView:
        """Return the state of the guard for status and page."""
        return GuardView(
            self.name, self._state.phase.value, self._reason, tuple(str(gpu.uuid) for gpu in self._watched)
        )

    def turn(self, snapshot: Snapshot) -> bool:
        """Decide and act on one snapshot; return whether all is done. Protections are read again before an action."""
        self._collect()
        loads = self._loads(snapshot)
        if self._under_way is None:
            alone = self._protected()
            found = [why for condition in self._conditions if (why := condition()) is not None]
            blockers = found if alone is None else [*found, alone]
            before = self._state
            decision = guard.step(before, snapshot.at_s, loads, blockers, self._rules)
            self._report_hold(before, decision, alone)
            self._apply(decision)
        return self._state.phase is guard.Phase.ACTED and not self._begun

    def _loads(self, snapshot: Snapshot) -> guard.Loads:
        """Return how much ran on each watched GPU. A GPU that has disappeared is unknown, not quiet."""
        try:
            self._watched = self._select(snapshot)
        except WrongUsage as error:
            self._watched = ()
            return {str(self._gpus): Unknown(str(error))}
        return {gpu.label: stretch_load(gpu) for gpu in self._watched}

    def _protected(self) -> Reason | None:
        protections = self._protections()
        return leave_alone(self._affected(), self._world.clock.wall_s(), protections) if protections else None

    def _apply(self, decision: guard.Decision) -> None:
        before, self._state, self._reason = self._state, decision.state, decision.reason
        if decision.state.phase is not before.phase:
            if decision.state.phase is guard.Phase.ARMED:
                # The other phases show in what is announced and done in them.
                self._run.say(f"{decision.state.phase}: {decision.because}")
            evidence = tuple((f"GPU {gpu.label}", _load_in_words(stretch_load(gpu))) for gpu in self._watched)
            self._run.journal.verdict(Verdict(self.name, decision.state.phase, decision.reason, evidence), self._keys)
        for action in decision.actions:
            match action:
                case Announce():
                    self._announce(action)
                case CallOff(reason=reason):
                    self._run.journal.action(self.name, in_words(action), reason, self._keys)
                    self._announce_to_terminals(f"called off: {reason}")
                    self._run.say(f"called off: {reason}")
                case _:
                    self._begin(action)

    def _report_hold(self, before: guard.State, decision: guard.Decision, alone: Reason | None) -> None:
        """Report once that an unknown or a protection keeps the guard waiting, and once that no unknown does."""
        phase, because = decision.state.phase, decision.because
        held = "paused" if decision.reason.kind == "paused" else "protected" if decision.reason == alone else ""
        was_held, self._held = self._held, held
        if held == was_held:
            return
        if was_held == "paused":
            self._run.say("no longer paused")
        if held == "paused":
            self._run.say(f"{phase}, {because}")
        elif held == "protected" and phase is before.phase:  # else it is called off, which is reported
            self._run.journal.refusal(self.name, _in_order(self._left), decision.reason, self._keys)
            self._run.say(f"{phase}, and does nothing while this lasts: {because}")

    def _announce(self, action: Announce) -> None:
        left, actions, in_s, keys = self._left, _in_order(self._left), action.in_s, self._keys
        when = f"in {duration_for_people(in_s)}. To prevent it: fallow protect --for 1h" if in_s else "now"
        stays_on = touches_machine(left) and self._world.simulated is not None
        text = f"{action.reason}: {'would' if self._run.dry_run or stays_on else 'about to'} {actions} {when}"
        self._run.journal.action(self.name, f"announce: {actions}", action.reason, keys)
        self._run.say(text)
        if touches_machine(left):
            self._run.report.notify(Notice("going_down", "machine", text))
        self._announce_to_terminals(
            text, lambda outcome: self._run.journal.outcome(self.name, f"announce: {actions}", outcome.words, keys)
        )

    @property
    def _left(self) -> tuple[HostAction, ...]:
        return self._rules.actions[self._state.index :]

    @property
    def _keys(self) -> list[str]:
        return [f"gpu:{gpu.uuid}" for gpu in self._watched]

    def _announce_to_terminals(self, text: str, then: Callable[[Outcome], None] = lambda _: None) -> None:
        """Announce to all people at terminals, but only what ends the work of all."""
        if touches_machine(self._rules.actions):
            self._submit(lambda: self._actuators.power.announce(text), then)
        else:
            then(Outcome(True, text))

    def _begin(self, action: HostAction) -> None:
        words, keys = in_words(action), self._keys
        at_s, wall_s = self._world.clock.monotonic_s(), self._world.clock.wall_s()
        refused = why_refused(action, self._affected(), at_s=at_s, wall_s=wall_s, protections=self._protections())
        self._under_way = action
        if refused is not None:
            self._run.journal.refusal(self.name, words, refused, keys)
            self._end_action(Outcome(False, f"refused: {refused}"), "refused")
            return
        self._run.journal.action(self.name, words, action.reason, keys)

        def record(outcome: Outcome) -> None:
            self._run.journal.outcome(self.name, words, outcome.words, keys)
            if outcome.ok:
                self._run.say(outcome.words)  # a failure is reported with what follows from it
            done = "dry_run" if self._run.dry_run else "done"
            self._end_action(outcome, done if outcome.ok else "failed")

        title = f"fallow: {'the guard' if self.name == 'guard' else self.name} acts"
        self._submit(lambda: perform(action, self._actuators, self._send, title), record)

    def _end_action(self, outcome: Outcome, result: str) -> None:
        """Count the action that was under way, and do what follows: the next one may follow at once."""
        assert self._under_way is not None
        action, self._under_way = self._under_way, None
        self._run.report.tally.action(type(action).__name__.lower(), result)
        decision = guard.after_action(self._state, outcome, self._rules)
        if not outcome.ok:
            self._run.say(decision.because)
            if decision.state.index > self._state.index:
                self.given_up.append(in_words(action))
        self._apply(decision)

    def _submit(self, work: Callable[[], Outcome], then: Callable[[Outcome], None]) -> None:
        """Do what may take long beside the loop; `then` gets its outcome, at a later turn."""
        self._begun.append((self._actuators.executor.submit(work), then))
        self._collect()

    def _collect(self) -> None:
        while (done := next((each for each in self._begun if each[0].done()), None)) is not None:
            self._begun.remove(done)
            future, then = done
            then(future.result())

    def _send(self, name: str) -> Outcome:
        if self._attached is None:
            return Outcome(False, "no process was named with --attach")
        if self._run.dry_run:
            return Outcome(True, f"would send SIG{name} to pid {self._attached.tree.root.pid} and all below it")
        return self._attached.send(name)

    def _select(self, snapshot: Snapshot) -> tuple[Gpu, ...]:
        return snapshot.gpus if self._gpus is None else select(self._gpus, snapshot.gpus)

    def _affected(self) -> Affected:
        tree = None if self._attached is None else self._attached.tree
        return Affected(
            uuids_with_cards(self._watched),
            () if tree is None else affected_processes(self._world, tree, watcher=False),
            machine=touches_machine(self._rules.actions),
            labels=labels_with_cards(self._watched),
        )

    def _protections(self) -> list[Protection]:
        return self._world.protections.active(self._world.clock.wall_s(), self._run.say)


def _in_order(actions: Sequence[HostAction]) -> str:
    return ", then ".join(in_words(action) for action in actions)


def _load_in_words(load: float | Unknown) -> str:
    return str(load) if isinstance(load, Unknown) else f"ran {load:.1%} of the time"
