"""A job under our eyes: look, judge, act, record, once a tick, until it has ended."""

from collections.abc import Callable
from typing import assert_never

from fallow.actuators.process.foreground_job import Supervision
from fallow.core.actions import (
    Ask,
    CancelWarning,
    JobAction,
    Kill,
    Warn,
    in_words,
)
from fallow.core.findings import Verdict, gpu_key, process_key
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import IDLE_BELOW, find_gpu, job_activity
from fallow.core.ports import Depth
from fallow.core.process import Ended
from fallow.core.protections import Affected, Protection
from fallow.core.units import duration_for_people, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.history.journal import Journal
from fallow.engine.jobs.protection_scope import affected_processes, uuids_with_cards
from fallow.engine.jobs.stop import JobActions, who_still_holds
from fallow.engine.machine.world import World
from fallow.policies import idle, stuck
from fallow.policies.arbiter import Proposal, arbitrate, leave_alone
from fallow.policies.idle import IdleRules
from fallow.policies.ladder import Rung
from fallow.policies.stuck import StuckRules

_FULL_FROM = 0.9


@value
class Rules:
    """What a job may do before anything follows. Without a rule for it, nothing does."""

    idle: IdleRules | None = None
    stuck: StuckRules | None = None
    idle_below: float = IDLE_BELOW
    every_s: float = 1.0
    until_nobody_is_left: bool = False
    """Go on when the first process has ended and others of the job live: something is to follow after the job."""


@value
class Result:
    """How the job ended, and why fallow stopped it, if it did."""

    ended: Ended | None
    stopped_because: str | None
    still_held: tuple[str, ...] = ()
    would_be_stopped_because: str | None = None
    """In a dry run: why it would have been stopped."""
    going_on: int = 0
    """How many processes of the job live on, unwatched."""


@value
class Tick:
    """What one look saw, how long the job has idled, and what is done about it now."""

    snapshot: Snapshot
    idle: idle.State
    actions: tuple[JobAction, ...] = ()


class Supervisor:
    """One job from its start to its end."""

    def __init__(
        self,
        world: World,
        job: Supervision,
        hands: JobActions,
        gpus: tuple[Gpu, ...],
        command: str,
        rules: Rules,
        journal: Journal,
        tell: Callable[[str], None],
        *,
        is_dry_run: bool = False,
        each_tick: Callable[[Tick], None] = lambda _: None,
    ) -> None:
        """`each_tick` is told of every tick that looks for idleness, before anything is done."""
        self._world = world
        self._each_tick = each_tick
        self._job = job
        self._hands = hands
        self._uuids = tuple(str(gpu.uuid) for gpu in gpus)
        self._rules = rules
        self._journal = journal
        self._tell = tell
        self._is_dry_run = is_dry_run
        root = job.tree.root
        self._subject = f"job {root.pid} ({program_name(command)})"
        self._with_cards = uuids_with_cards(gpus)
        self._keys = [process_key(root.pid, root.birth), *(gpu_key(uuid) for uuid in self._uuids)]
        now_s = world.clock.monotonic_s()
        self._idle = idle.State(at_s=now_s)
        self._stuck = stuck.State(at_s=now_s, rest_w=journal.rest_power_w() if rules.stuck else {})
        self._last_finding = ""
        self._asked_because: str | None = None

    def run(self) -> Result:
        """Until the job has ended; if it was asked to, until nobody of it is left."""
        clock = self._world.clock
        next_s = clock.monotonic_s() + self._rules.every_s
        while not self._over(max(0.0, next_s - clock.monotonic_s())):
            self._tick()
            next_s = max(next_s + self._rules.every_s, clock.monotonic_s())
        if self._asked_because is None or self._is_dry_run:
            going_on = len(self._job.tree.living())
            would = self._asked_because
            return Result(self._job.tree.ended, None, would_be_stopped_because=would, going_on=going_on)
        still_held = tuple(who_still_holds(self._world, self._uuids))
        words = "; ".join(still_held) or "the memory of its GPUs is back"
        self._journal.outcome(self._subject, "stopped", words, self._keys)
        return Result(self._job.tree.ended, self._asked_because, still_held)

    def _over(self, timeout_s: float) -> bool:
        if self._asked_because is not None and not self._is_dry_run:
            return self._job.wait_for_tree(timeout_s) or self._idle_killed()
        if self._rules.until_nobody_is_left:
            return self._job.wait_for_tree(timeout_s)
        return self._job.wait_for_job(timeout_s) is not None

    def _idle_killed(self) -> bool:
        return Rung.KILLED in (self._idle.ladder.rung, self._stuck.ladder.rung)

    def _tick(self) -> None:
        snapshot = self._world.gpu_reader.look(Depth.WATCH)
        pids = self._own_pids(snapshot)
        protections = self._protections()
        alone = leave_alone(self._touched(), self._world.clock.wall_s(), protections) if protections else None
        if self._stuck.ladder.rung is not Rung.ASKED:
            self._look_for_idleness(snapshot, pids, alone)
        if self._idle.ladder.rung is not Rung.ASKED:
            self._look_for_a_hang(snapshot, pids, alone)

    def _look_for_idleness(self, snapshot: Snapshot, pids: frozenset[int], alone: str | None) -> None:
        rules = self._rules.idle
        finding = job_activity(snapshot, self._uuids, pids, self._rules.idle_below)
        if finding.activity != self._last_finding and self._asked_because is None:
            self._note(finding.verdict(self._subject))
        if rules is None:
            return
        decision = idle.step(self._idle, snapshot.at_s, finding, rules, alone)
        if not decision.actions or self._allowed(decision.actions, snapshot.at_s, finding.verdict(self._subject)):
            self._idle = decision.state
            self._each_tick(Tick(snapshot, self._idle, decision.actions))
            self._act(decision.actions)
        else:
            self._idle = idle.refused(self._idle, snapshot.at_s)
            self._each_tick(Tick(snapshot, self._idle))

    def _look_for_a_hang(self, snapshot: Snapshot, pids: frozenset[int], alone: str | None) -> None:
        rules = self._rules.stuck
        if rules is None or not (rules.acts or self._worth_a_look(snapshot)):
            return
        decision = stuck.step(self._stuck, snapshot, self._uuids, rules, pids, alone)
        for uuid, watts in decision.state.rest_w.items():
            if self._stuck.rest_w.get(uuid) != watts:
                self._journal.remember_rest_power(uuid, watts)
        if decision.verdict.finding == "stuck" and self._asked_because is None:
            self._note(Verdict(self._subject, "stuck", decision.verdict.because, decision.verdict.evidence))
        if self._allowed(decision.actions, snapshot.at_s, decision.verdict):
            self._stuck = decision.state
            self._act(decision.actions)
        else:
            self._stuck = stuck.refused(self._stuck, snapshot.at_s)

    def _worth_a_look(self, snapshot: Snapshot) -> bool:
        """Whether a hang that is only to be reported could be seen, or what a card draws at rest be learned."""
        loads = [gpu.utilization for gpu in snapshot.gpus if not isinstance(gpu.utilization, Unknown)]
        learned = len(self._stuck.rest_w) == len(self._uuids)
        return self._stuck.hung_s > 0 or any(load >= _FULL_FROM or (load == 0 and not learned) for load in loads)

    def _allowed(self, actions: tuple[JobAction, ...], at_s: float, verdict: Verdict) -> bool:
        if not actions:
            return True
        if not any(isinstance(action, Kill) for action in actions):
            # What a job does once it was asked may be its way of saving its work, and is no verdict on it.
            told = Verdict(self._subject, verdict.finding, verdict.because, verdict.evidence)
            self._journal.verdict(told, self._keys)
        proposals = [Proposal(action, self._touched()) for action in actions]
        rulings = arbitrate(proposals, at_s=at_s, wall_s=self._world.clock.wall_s(), protections=self._protections())
        for ruling in rulings:
            if ruling.refused is not None:
                self._journal.refusal(self._subject, in_words(ruling.proposal.action), ruling.refused, self._keys)
        return all(ruling.allowed for ruling in rulings)

    def _act(self, actions: tuple[JobAction, ...]) -> None:
        for action in actions:
            words = in_words(action)
            self._journal.action(self._subject, words, action.because, self._keys)
            match action:
                case Warn(because=because, ask_in_s=ask_in_s):
                    would = "would be" if self._is_dry_run else "will be"
                    self._tell(
                        f"{because}; the job {would} stopped in {duration_for_people(ask_in_s)} unless it works"
                    )
                case CancelWarning(because=because):
                    self._asked_because = None
                    self._tell(f"the job goes on: {because}")
                case Ask(because=because, signal=name):
                    self._asked_because = because
                    self._tell(f"{'would stop' if self._is_dry_run else 'stopping'} the job: {because}")
                    outcome = self._hands.ask(name)
                    self._journal.outcome(self._subject, words, outcome.words, self._keys)
                case Kill(because=because):
                    self._tell(
                        f"{'would kill' if self._is_dry_run else 'killing'} what is left of the job: {because}"
                    )
                    outcome = self._hands.insist()
                    self._journal.outcome(self._subject, words, outcome.words, self._keys)
                    if not outcome.ok:
                        self._tell(outcome.words)
                case _:
                    assert_never(action)

    def _note(self, verdict: Verdict) -> None:
        """Into the journal when it changes: a row a second would tell nobody more."""
        if verdict.finding != self._last_finding:
            self._last_finding = verdict.finding
            self._journal.verdict(verdict, self._keys)
            if verdict.finding == "stuck":
                self._tell(f"the job looks stuck: {verdict.because}")

    def _own_pids(self, snapshot: Snapshot) -> frozenset[int]:
        holders: set[int] = set()  # a process is asked for once, on however many cards it is
        for uuid in self._uuids:
            gpu = find_gpu(snapshot, uuid)
            if not isinstance(gpu, Unknown) and not isinstance(gpu.holders, Unknown):
                holders.update(holder.pid for holder in gpu.holders)
        return frozenset(pid for pid in holders if self._job.tree.has(pid))

    def _touched(self) -> Affected:
        return Affected(self._with_cards, affected_processes(self._world, self._job.tree, watcher=True))

    def _protections(self) -> list[Protection]:
        return self._world.protections.active(self._world.clock.wall_s(), self._tell)
