"""One job under one rule: where it stands with the policies against idleness and against hangs.

Both are those of `fallow run`, with one difference: fallow did not start the job, so nothing counts before it was
first seen. Somebody who joins the job was not seen before, and begins it anew: whoever is asked to end was warned.
"""

from collections.abc import Mapping
from enum import StrEnum

from fallow.actuators.process.tree import JobTree
from fallow.core.actions import Ask, JobAction
from fallow.core.board import Counting
from fallow.core.findings import Verdict, gpu_key, process_key
from fallow.core.gpu import Snapshot
from fallow.core.job import JobActivity, JobFinding, job_activity
from fallow.core.process import Process
from fallow.core.value import replace, value
from fallow.engine.config.rules import Idle
from fallow.engine.idle_rules.gpu_jobs import GpuJob
from fallow.policies import idle, stuck
from fallow.policies.ladder import Rung


class Policy(StrEnum):
    """Which of the policies."""

    IDLE = "idle"
    STUCK = "stuck"


@value
class Asked:
    """Those who were asked to end: the holders and all below them, and nobody who came later."""

    roots: tuple[Process, ...]
    trees: tuple[JobTree, ...]
    because: str


@value
class Proposal:
    """What one policy makes of one look; it stands only if the arbiter allows it."""

    lane: Policy
    state: idle.State | stuck.State
    actions: tuple[JobAction, ...] = ()
    verdict: Verdict | None = None
    """What was found; None where nothing follows from it."""


class RuleState:
    """A job and a rule."""

    def __init__(self, rule: Idle, job: GpuJob, longest_gap_s: float) -> None:
        self.rule = rule
        self.job = job
        self.asked: Asked | None = None
        self.refused_until_s = 0.0
        """Until then what was refused is not asked for again."""
        self.refusal = ""
        self.left_alone: str | None = None
        """The protection that was on at the last look, as people read it."""
        self.hang_told = False
        self.survivors_due_s: float | None = None
        rules = rule.idle_rules(longest_gap_s)
        # Who only reports has nothing to warn of: it reports when the time is full.
        self._idle_rules = rules if rules is None or rule.act else replace(rules, warn_before_s=0.0)
        self._stuck_rules = rule.stuck_rules(longest_gap_s)
        self._seen = frozenset(job.members)
        self._idle = idle.State()
        self._stuck = stuck.State()

    @property
    def subject(self) -> str:
        """Whom it is about."""
        return self.job.subject

    @property
    def keys(self) -> list[str]:
        """Under which the journal keeps it."""
        return [*self._process_keys, *(gpu_key(uuid) for uuid in self.job.uuids)]

    @property
    def _process_keys(self) -> tuple[str, ...]:
        return tuple(process_key(process.pid, process.birth) for process in self.job.members)

    def counting(self) -> list[Counting]:
        """How far each policy has come, and what it would do when, if nothing changes."""
        found: list[Counting] = []
        if self._idle_rules is not None:
            warmup_s = max(0.0, self._idle_rules.warmup_s - self._idle.warmed_s)
            action, in_s = self._idle.ladder.next_action(self._idle_rules.times)
            if not self.rule.act:
                action = "report" if action == "warn" else "nothing"
            found.append(self._counting("idle", self._idle.idle_s, action, in_s, warmup_s))
        if self._stuck_rules is not None:
            action, in_s = self._stuck.ladder.next_action(self._stuck_rules.times)
            if not self._stuck_rules.acts:
                action, in_s = "report", max(0.0, self._stuck_rules.window_s - self._stuck.hung_s)
            found.append(self._counting("stuck", self._stuck.hung_s, action, in_s, 0.0))
        return found

    def _counting(self, fault: str, for_s: float, action: str, in_s: float, warmup_s: float) -> Counting:
        return Counting(
            rule=self.rule.name,
            subject=self.subject,
            uuids=tuple(self.job.uuids),
            processes=self._process_keys,
            fault=fault,
            for_s=for_s,
            action=action,
            in_s=in_s,
            begins_in_s=warmup_s,
            refused=self.refusal or None,
            left_alone=self.left_alone,
        )

    @property
    def warned(self) -> bool:
        """Whether its people were told that it will be asked."""
        return self.rule.act and Rung.WARNED in (self._idle.ladder.rung, self._stuck.ladder.rung)

    @property
    def killed(self) -> bool:
        """Whether nothing more follows."""
        return Rung.KILLED in (self._idle.ladder.rung, self._stuck.ladder.rung)

    def follow(self, job: GpuJob) -> bool:
        """The job as it is now; True if somebody has joined it, so that all begins anew."""
        self.job = job
        if self.asked is not None or self._seen.issuperset(job.members):
            return False
        self._seen = frozenset(job.members)
        self._idle, self._stuck = idle.State(), stuck.State()
        self.hang_told = False
        return True

    def finding(self, snapshot: Snapshot) -> JobFinding:
        """What the job did since the last look, on all its cards, and on those where it may be."""
        uuids = (*self.job.uuids, *self.job.doubtful)
        return job_activity(snapshot, uuids, self.job.told_apart, self.rule.idle_below)

    def works(self, snapshot: Snapshot) -> bool:
        """Whether it is known to have worked."""
        return self.finding(snapshot).activity is JobActivity.BUSY

    def decide(
        self, lane: Policy, snapshot: Snapshot, alone: str | None, rest_w: Mapping[str, float]
    ) -> Proposal | None:
        """What a policy makes of this look; None if the rule does not ask it, or the other one has asked the job."""
        if lane is Policy.IDLE:
            return None if self._stuck.ladder.rung is Rung.ASKED else self._decide_on_idleness(snapshot, alone)
        return None if self._idle.ladder.rung is Rung.ASKED else self._decide_on_a_hang(snapshot, alone, rest_w)

    def take(self, decided: Proposal) -> None:
        """It was allowed."""
        if isinstance(decided.state, idle.State):
            self._idle = decided.state
        else:
            self._stuck = decided.state

    def refuse(self, lane: Policy, at_s: float) -> None:
        """It was not: all stays as it was, and the look counts nothing."""
        if lane is Policy.IDLE:
            self._idle = idle.refused(self._idle, at_s)
        else:
            self._stuck = stuck.refused(self._stuck, at_s)

    def _decide_on_idleness(self, snapshot: Snapshot, alone: str | None) -> Proposal | None:
        if self._idle_rules is None:
            return None
        finding = self.finding(snapshot)
        decision = idle.step(self._idle, snapshot.at_s, finding, self._idle_rules, alone)
        if not self.rule.act and any(isinstance(action, Ask) for action in decision.actions):
            return Proposal(Policy.IDLE, idle.refused(self._idle, snapshot.at_s))
        # The readings are put into words only where somebody will read them, not at every tick.
        verdict = finding.verdict(self.subject) if decision.actions else None
        return Proposal(Policy.IDLE, decision.state, decision.actions, verdict)

    def _decide_on_a_hang(
        self, snapshot: Snapshot, alone: str | None, rest_w: Mapping[str, float]
    ) -> Proposal | None:
        if self._stuck_rules is None:
            return None
        before = replace(self._stuck, rest_w=rest_w)
        uuids = (*self.job.uuids, *self.job.doubtful)
        decision = stuck.step(before, snapshot, uuids, self._stuck_rules, self.job.told_apart, alone)
        found = decision.verdict
        verdict = Verdict(self.subject, found.finding, found.because, found.evidence)
        return Proposal(Policy.STUCK, decision.state, decision.actions, verdict)
