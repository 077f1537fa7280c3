"""Judge all jobs of a cluster by one look, and have the hands do what the rules propose.

In one look every job is judged first, then the engine is asked again which jobs there are, then at most some are
acted on: interactive ones first where the rule says so, then those that were idle for longest. What is refused, or
has to wait for the next look, keeps its count. A look in which the engine or the metrics did not answer changes
nothing but the time that is not witnessed.
"""

from collections.abc import Callable, Mapping, Sequence

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill, Warn
from fallow.core.cluster import ClusterJob, ClusterNode, Readings
from fallow.core.ports import Clock
from fallow.core.protections import Protection
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.hands import ClusterHands
from fallow.engine.cluster.job_state import NO_RULE, ClusterJobState
from fallow.engine.cluster.returned import ReturnedClusterJobs
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import (
    ClusterRule,
    Interactive,
    JobCount,
    count,
    held_back_by,
    left_alone,
    not_seen,
    too_many,
    was_started_again,
)
from fallow.policies.cluster_use import ReadingIndex, job_use

_ACTIONS_TAKE_S = 20.0
_OLDEST_S = 120.0  # of readings by which a job is warned or stopped: an engine may take minutes to answer
Protections = Callable[[], Sequence[Protection]]
Proposal = tuple[ClusterJobState, JobCount, JobAction]


class ClusterJudge:
    """All jobs of the cluster, and the rules that count for them. Used by the cluster's thread alone."""

    def __init__(
        self,
        hands: ClusterHands,
        rules: Sequence[ClusterRule],
        protect: ProtectRules,
        protections: Protections,
        clock: Clock,
        longest_gap_s: float,
        operator: str = "root",
        background: frozenset[str] = frozenset(),
    ) -> None:
        """`operator`: who runs the daemon, and may protect the jobs of all, as root may.

        `background`: the partitions whose jobs give way to all others; no rule counts for them.
        """
        self._operators = frozenset(("root", operator))
        self._hands = hands
        self._background = background
        self._rules = list(rules)
        self._no_rule = replace(NO_RULE, longest_gap_s=longest_gap_s)
        self._protect = protect
        self._protections = protections
        self._clock = clock
        self.states: dict[str, ClusterJobState] = {}
        self._taken_s: dict[str, list[float]] = {}
        self._returned = ReturnedClusterJobs(clock)
        self.is_ending = False
        """True once nothing more may be done."""

    def change(self, rules: Sequence[ClusterRule], protect: ProtectRules) -> None:
        """Use these rules from now on; any thread may call it. What is counted stays, where its rule is the same.

        What is due in a look that has begun waits for the next one.
        """
        self._protect, self._rules = protect, list(rules)

    def blind(self, at_s: float, why: Unknown) -> None:
        """Take note of a look that showed nothing: the jobs stay as they are, and the time does not count."""
        for state in self.states.values():
            state.count = not_seen(state.count, at_s)
            state.use = why

    def look(
        self,
        jobs: Sequence[ClusterJob],
        readings: Readings,
        pending_gpus: int | Unknown,
        trouble: Unknown | None = None,
        nodes: Sequence[ClusterNode] = (),
    ) -> None:
        """Judge these jobs by these readings, and act; `trouble` is why nothing may be judged and done."""
        rules = self._rules
        self._follow({job.key: job for job in jobs})
        if trouble is None:
            trouble = readings.trouble
        if trouble is not None:
            self.blind(readings.at_s, trouble)
            return
        index = ReadingIndex(readings, nodes)
        protections, wall_s = self._protections(), self._clock.wall_s()
        proposals: list[Proposal] = []
        for state in self.states.values():
            proposals += self._judged(state, readings, index, pending_gpus, protections, wall_s)
        self._act(proposals, readings.at_s, rules)

    def _follow(self, jobs: Mapping[str, ClusterJob]) -> None:
        """Take the jobs as they are now: forget those that are gone, and begin with those that are new."""
        for key, state in list(self.states.items()):
            now = jobs.get(key)
            if now is None or (state.asked is not None and was_started_again(state.job, now)):
                del self.states[key]
                if state.asked is not None and self._hands.was_stopped(state):
                    self._returned.stopped(key)
        for key, job in jobs.items():
            rule = self._rule_for(job)
            known = self.states.get(key)
            if known is None:
                came_back = self._returned.has_come_back(key)
                known = self.states[key] = ClusterJobState(job, rule, self._forced(job))
                if came_back:
                    self._hands.came_back(known)
            else:
                why = Reason("joined") if known.rule == rule else Reason("not_covered")
                if known.follow(job, rule, self._forced(job)):
                    self._hands.carry_out(known, CancelWarning(why))
            # Of one that is suspended, or of which Slurm's words cannot be told apart, nothing follows for its GPUs.
            known.is_background = job.no_way is None and self._is_background(job)

    def _rule_for(self, job: ClusterJob) -> ClusterRule:
        if self._is_background(job):
            return self._no_rule
        return next((each for each in self._rules if each.covers(job)), self._no_rule)

    def _is_background(self, job: ClusterJob) -> bool:
        return job.labels.get("partition") in self._background

    def _forced(self, job: ClusterJob) -> Reason | None:
        """Return why a rule may only report this job."""
        if job.no_way is not None:
            return Reason("no_way", why=job.no_way)
        return Reason("came_back") if self._returned.is_left(job.key) else None

    def _judged(
        self,
        state: ClusterJobState,
        readings: Readings,
        index: ReadingIndex,
        pending_gpus: int | Unknown,
        protections: Sequence[Protection],
        wall_s: float,
    ) -> list[Proposal]:
        """Judge one job; return what is to be done, which counts only once it is done."""
        rule = state.effective
        use = state.use = job_use(state.job, index, rule.idle_below)
        state.alone = self._alone(state, protections, wall_s)
        held_back = held_back_by(rule, state.job, wall_s, pending_gpus)
        after, actions = count(state.count, readings.at_s, readings.covers_s, use, rule, state.alone, held_back)
        if not actions:
            state.count, state.refusal = after, None
        elif not rule.acts:
            state.count = after
            self._report(state, actions)
        self._report_more(state)
        return [(state, after, action) for action in actions] if rule.acts else []

    def _report(self, state: ClusterJobState, actions: Sequence[JobAction]) -> None:
        for action in actions:
            if isinstance(action, Warn):
                self._hands.found("idle", state, action.reason, f"is {action.because}")

    def _report_more(self, state: ClusterJobState) -> None:
        """Report a job that holds more GPUs than it uses, once."""
        enough = state.more_than_used if state.rule.name and not state.told_more else None
        if enough is not None:
            state.told_more = True
            gpus, for_s = state.job.gpu_count, state.count.known_s
            reason = Reason("asked_for_more", gpus=gpus, used=enough, for_s=for_s)
            self._hands.found("idle", state, reason, f"could do with {enough} of its {gpus} GPUs: {reason}")

    def _act(self, proposals: list[Proposal], at_s: float, rules: Sequence[ClusterRule]) -> None:
        """Carry out what was proposed, as far as that is allowed and time is left; the rest keeps its count."""
        calming = [each for each in proposals if isinstance(each[2], CancelWarning)]
        others = sorted((each for each in proposals if not isinstance(each[2], CancelWarning)), key=_turn)
        for state, after, action in calming:
            state.count = after
            self._hands.carry_out(state, action)
        if not others:
            return
        self._hands.confirm()
        protections, began_s = self._protections(), self._clock.monotonic_s()
        for state, after, action in others:
            now_s = self._clock.monotonic_s()
            is_over = self.is_ending or self._rules is not rules
            waits = is_over or now_s - began_s > _ACTIONS_TAKE_S or now_s < state.retry_at_s
            if waits or not self._allowed(state, action, protections, now_s, now_s - at_s):
                state.count = not_seen(state.count, at_s)
            elif self._hands.carry_out(state, action):
                state.count = after
                if isinstance(action, Ask):
                    self._taken_s.setdefault(state.rule.name, []).append(now_s)
            else:
                state.count = not_seen(state.count, at_s)

    def _alone(self, state: ClusterJobState, protections: Sequence[Protection], wall_s: float) -> Reason | None:
        return left_alone(state.job, state.uuids, protections, self._protect, wall_s, self._operators)

    def _allowed(
        self, state: ClusterJobState, action: JobAction, protections: Sequence[Protection], now_s: float, old_s: float
    ) -> bool:
        why = self._hands.refusal(state) or self._alone(state, protections, self._clock.wall_s())
        if why is None and old_s > _OLDEST_S:
            why = Reason("readings_old", ago_s=old_s)
        if why is None and isinstance(action, Ask):
            limit, taken_s = state.rule.limit, self._taken_s.get(state.rule.name, [])
            taken_s[:] = [each for each in taken_s if now_s - each < limit.per_s]
            why = too_many(taken_s, now_s, limit)
        if why is not None:
            self._hands.refuse(state, action, why)
        return why is None

    def take_warnings_back(self) -> None:
        """Take all warnings back, because this loop ends and nobody counts any more."""
        for state in self.states.values():
            if state.warned is not None:
                self._hands.carry_out(state, CancelWarning(Reason("fallow_ends")))


def _turn(proposal: Proposal) -> tuple[bool, bool, float]:
    """Return the place of a proposal: kills, then interactive jobs where they come first, then by idle time."""
    state, _, action = proposal
    first = state.job.interactive and state.rule.interactive is Interactive.FIRST
    return not isinstance(action, Kill), not first, -state.count.idle_s
