"""The state of one job under one rule: what the policies against idle and against stuck jobs remember of it.

A process that joins the job was not seen before, so the job starts from the beginning: everything that is asked to
end was warned.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import inf

from fallow.core.actions import Ask, JobAction, Warn
from fallow.core.board import Counting
from fallow.core.findings import Verdict
from fallow.core.gpu import Snapshot
from fallow.core.job import IDLE_BELOW, Job, JobActivity, JobFinding, job_activity, with_conditions
from fallow.core.protections import Protection, with_its_end
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace, value
from fallow.engine.jobs.before_ask import BeforeAsk, Steps
from fallow.engine.jobs.ports import BeginConditions, JobActions, JobCondition
from fallow.policies import idle, stuck
from fallow.policies.arbiter import Taken
from fallow.policies.idle import IdleRules
from fallow.policies.ladder import Rung
from fallow.policies.stuck import StuckRules

Waits = Callable[[Job], Reason | Unknown | None]
"""Returns who waits for the GPUs of a job: None if nobody does, Unknown if that cannot be read."""
_FULL_FROM = 0.9  # below the load from which policies/hang.py calls a GPU full


class Policy(StrEnum):
    """The policies that a job is under, in the order in which they are asked."""

    IDLE = "idle"
    STUCK = "stuck"


@value
class JobRule:
    """What a job may do before something follows. A part that is None is not judged."""

    idle: IdleRules | None = None
    stuck: StuckRules | None = None
    idle_below: float = IDLE_BELOW
    name: str = ""
    """Its name in the config; empty for the job of `fallow run`."""
    acts: bool = True
    """Whether it warns, asks and kills, or only reports."""
    before_ask: BeforeAsk = BeforeAsk()
    warn_signal: str | None = None
    """The signal that its processes on GPUs get with the warning, so that they can save their work."""
    begin_conditions: BeginConditions = tuple
    """Makes the conditions under which a job that is idle on its GPUs is in use all the same."""
    parks: bool = False
    """Whether a job that is idle is parked, if that is possible."""
    stops: bool = True
    """Whether a job that is not parked is asked to end."""


@value
class PolicyStep:
    """What one policy proposes at one tick. It counts only if the arbiter allows its actions."""

    policy: Policy
    state: idle.State | stuck.State
    actions: tuple[JobAction, ...] = ()
    verdict: Verdict | None = None
    """What was found; None where nothing follows from it."""


class JobState:
    """A job and the rule that it is under."""

    def __init__(self, rule: JobRule, job: Job, began_s: float | None = None, waits: Waits = lambda _: None) -> None:
        """`began_s` is when fallow started the job. Without it nothing counts before the first snapshot."""
        self.rule = rule
        self.job = job
        self._waits = waits
        self._held_back: Reason | Unknown | None = None
        self.asked: JobActions | None = None
        """Acts on the processes that were asked to end; None before they were."""
        self.asked_reason: Reason | None = None
        self.steps: Steps | None = None
        """What is done before it is asked to end; None before that begins."""
        self.counted: Taken | None = None
        """How it counts among the jobs that were asked to end, from the first of these steps on."""
        self.parking: Ask | None = None
        """What it was parked for, until it is known that it is parked or cannot be; None before."""
        self.parking_failed = False
        self.refused_until_s = 0.0
        """Until then what was refused is not proposed again."""
        self.refusal: Reason | None = None
        """Why what is due is not done; None if nothing is."""
        self.refused: Policy | None = None
        """The policy whose proposal that was."""
        self.left_alone: str | None = None
        """Why it was left alone at the last tick, as a sentence."""
        self.protection: int | None = None
        """The protection that covered it then, by its number."""
        self.reported_stuck = False
        self.survivors_due_s: float | None = None
        self.paused: Reason | None = None
        """The condition that could not be told at the last tick, for which the job is not counted as idle."""
        self._idle_for_s = job.idle_for_s
        self._seen = frozenset(job.members)
        self._idle = idle.State(at_s=began_s)
        self._stuck = stuck.State(at_s=began_s)
        self._found: tuple[Snapshot, JobFinding] | None = None
        self._counted_since: str | None = "it was first seen"
        self._conditions: Sequence[JobCondition] | None = None

    @property
    def facts(self) -> dict[str, str]:
        """Return what the journal has with each action on the job: its user, and the rule, if it has a name."""
        return {"job_user": self.job.user} | ({"rule": self.rule.name} if self.rule.name else {})

    @property
    def who(self) -> str:
        """Return what messages call the job."""
        return self.job.subject if self.rule.name else "the job"

    def counting(self) -> list[Counting]:
        """Return how far each policy has come, and what it does when, if nothing changes."""
        found: list[Counting] = []
        idle_rules = self._idle_rules
        if idle_rules is not None:
            rules = self._idle.patient(idle_rules)
            warmup_s = max(0.0, rules.warmup_s - self._idle.warmed_s)
            action, in_s = self._idle.ladder.next_action(rules)
            if not self.rule.acts:
                action = "report" if action == "warn" else "nothing"
            elif self.parking is not None or (action == "ask" and self.rule.parks):
                action = "park"
            counting = self._counting(Policy.IDLE, self._idle.idle_s, action, in_s, warmup_s)
            held_back = None if self._held_back is None or self.asked is not None else str(self._held_back)
            notice_s = self._idle.ladder.next_notice_s(rules) if self.rule.acts else None
            found.append(replace(counting, held_back=held_back, notice_s=notice_s, parks=self.rule.parks))
        stuck_rules = self.rule.stuck
        if stuck_rules is not None:
            action, in_s = self._stuck.ladder.next_action(stuck_rules)
            if not stuck_rules.acts:
                action, in_s = "report", max(0.0, stuck_rules.timeout_s - self._stuck.hung_s)
            notice_s = self._stuck.ladder.next_notice_s(stuck_rules) if stuck_rules.acts else None
            counting = self._counting(Policy.STUCK, self._stuck.hung_s, action, in_s, 0.0)
            found.append(replace(counting, notice_s=notice_s))
        return found

    def _counting(self, policy: Policy, for_s: float, action: str, in_s: float, warmup_s: float) -> Counting:
        return Counting(
            rule=self.rule.name,
            subject=self.job.subject,
            uuids=self.job.uuids,
            processes=self.job.process_keys,
            fault=policy.value,
            for_s=for_s,
            action=action,
            in_s=in_s,
            begins_in_s=warmup_s,
            counted_since=self._counted_since if for_s else None,
            refused=None if self.refusal is None or policy is not self.refused else str(self.refusal),
            left_alone=self.left_alone,
            protection=self.protection,
            paused=None if self.paused is None or policy is not Policy.IDLE else str(self.paused),
        )

    @property
    def _idle_rules(self) -> IdleRules | None:
        rules = self.rule.idle
        if rules is None:
            return None
        # A rule that only reports has nothing to warn of: it reports when the time is full.
        return (rules if self.rule.acts else replace(rules, warn_before_s=0.0)).allowing(self._idle_for_s)

    @property
    def warned(self) -> bool:
        """Return whether its people were warned, and it was not asked yet."""
        return self.rule.acts and Rung.WARNED in self._rungs

    @property
    def was_joined(self) -> bool:
        """Return whether it has a process that was not there when it began to be judged."""
        return not self._seen.issuperset(self.job.members)

    @property
    def killed(self) -> bool:
        """Return whether nothing more follows."""
        return Rung.KILLED in self._rungs

    @property
    def hung_s(self) -> float:
        """Return for how long it has been seen to hang."""
        return self._stuck.hung_s

    @property
    def _rungs(self) -> tuple[Rung, Rung]:
        return self._idle.ladder.rung, self._stuck.ladder.rung

    def remember_why_not(
        self, alone: Reason | None, protection: Protection | None, wall_s: float, labels: Mapping[str, str]
    ) -> None:
        """Remember why it is left alone in this tick, and by which protection if by one."""
        self.left_alone, self.protection = None if alone is None else str(alone), None
        if protection is not None:
            self.left_alone, self.protection = with_its_end(protection, wall_s, labels), protection.id

    def follow(self, job: Job) -> bool:
        """Take the job as it is now; True if a process has joined it, so that it starts from the beginning.

        An owner that does not answer takes nothing back of what the people of the job said.
        """
        self.job = job
        self._idle_for_s = self._idle_for_s if job.idle_for_s is None else job.idle_for_s
        if self.asked is not None or self.parking is not None or not self.was_joined:
            return False
        self._seen = frozenset(job.members)
        self.begin_again()
        self._counted_since = "another process joined it"
        return True

    def begin_again(self) -> None:
        """Judge the job as if it had just been found."""
        self._idle, self._stuck = idle.State(), stuck.State()
        self.reported_stuck = False
        self.parking, self.parking_failed = None, False
        self.steps = None

    def finding(self, snapshot: Snapshot) -> JobFinding:
        """Return what the job did on its GPUs, and on those where it may be; if nothing, what its conditions say."""
        if self._found is None or self._found[0] is not snapshot:
            gpus = (*self.job.gpus, *self.job.doubtful)
            found = job_activity(snapshot, gpus, self.job.pids, self.rule.idle_below)
            self._found = snapshot, self._with_conditions(found)
        return self._found[1]

    def _with_conditions(self, found: JobFinding) -> JobFinding:
        """Look at the conditions only while the job is idle on its GPUs: what they compare with begins then."""
        if found.activity is JobActivity.BUSY:
            self._conditions = self._counted_since = None
        self.paused = None
        if found.activity is not JobActivity.IDLE:
            return found
        if self._conditions is None:
            self._conditions = self.rule.begin_conditions()
        if not self._conditions:
            return found
        judged = with_conditions(found, [(each.text, each(self.job)) for each in self._conditions])
        self.paused = judged.reason if judged.reason.kind == "condition_unknown" else None
        return judged

    def propose(
        self, policy: Policy, snapshot: Snapshot, alone: Reason | None, rest_w: Mapping[str, float]
    ) -> PolicyStep | None:
        """Return what a policy proposes; None without a rule for it, or once the other policy has asked the job."""
        if alone is not None:
            self._counted_since = "its protection ended"
        if policy is Policy.IDLE:
            return None if self._stuck.ladder.rung is Rung.ASKED else self._propose_idle(snapshot, alone)
        return None if self._idle.ladder.rung is Rung.ASKED else self._propose_stuck(snapshot, alone, rest_w)

    def take(self, step: PolicyStep) -> None:
        """Apply a step that was allowed."""
        if isinstance(step.state, idle.State):
            self._idle = step.state
        else:
            self._stuck = step.state

    def refuse(self, policy: Policy, at_s: float) -> None:
        """Keep the state as it was: a step that was refused counts nothing."""
        if policy is Policy.IDLE:
            self._idle = replace(self._idle, at_s=at_s)
        else:
            self._stuck = replace(self._stuck, at_s=at_s)

    def _propose_idle(self, snapshot: Snapshot, alone: Reason | None) -> PolicyStep | None:
        rules = self._idle_rules
        if rules is None:
            return None
        finding = self.finding(snapshot)
        waits = self._waits(self.job) if rules.when is idle.When.WANTED else None
        self._held_back = idle.held_back_by(rules, waits)
        decision = idle.step(self._idle, snapshot.at_s, finding, rules, alone, waits)
        if not self.rule.acts and any(isinstance(action, Ask) for action in decision.actions):
            return PolicyStep(Policy.IDLE, replace(self._idle, at_s=snapshot.at_s))
        # Evidence is rendered only when it is written down, not at every tick.
        verdict = finding.verdict(self.job.subject) if decision.actions else None
        actions = tuple(self._as_the_rule_says(action) for action in decision.actions)
        return PolicyStep(Policy.IDLE, decision.state, actions, verdict)

    def _as_the_rule_says(self, action: JobAction) -> JobAction:
        """Return the action, as one that parks the job if the rule wants that."""
        if not self.rule.parks or not isinstance(action, Warn | Ask):
            return action
        return replace(action, parks=True, stops=self.rule.stops)

    def _propose_stuck(
        self, snapshot: Snapshot, alone: Reason | None, rest_w: Mapping[str, float]
    ) -> PolicyStep | None:
        if self.rule.stuck is None or not (self.rule.stuck.acts or self._could_be_stuck(snapshot, rest_w)):
            return None
        before = replace(self._stuck, rest_w=rest_w)
        gpus = (*self.job.gpus, *self.job.doubtful)
        decision = stuck.step(before, snapshot, gpus, self.rule.stuck, self.job.pids, alone)
        verdict = replace(decision.verdict, subject=self.job.subject)
        return PolicyStep(Policy.STUCK, decision.state, decision.actions, verdict)

    def _could_be_stuck(self, snapshot: Snapshot, rest_w: Mapping[str, float]) -> bool:
        """Return whether a rule that only reports could find a hang, or learn what a GPU draws at rest."""
        if self._stuck.hung_s > 0:
            return True
        uuids = {gpu.uuid for gpu in (*self.job.gpus, *self.job.doubtful)}
        return any(
            known(gpu.utilization, 0.0) >= _FULL_FROM
            or (gpu.utilization == 0 and known(gpu.power_w, inf) < rest_w.get(str(gpu.uuid), inf))
            for gpu in snapshot.gpus
            if gpu.uuid in uuids
        )
