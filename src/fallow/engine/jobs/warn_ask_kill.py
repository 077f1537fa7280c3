"""Drive a job from the warning to SIGTERM to SIGKILL. `fallow run` and the idle rules of the daemon both use this.

One tick for one job:

    leave alone?   a protection or a [protect] rule covers the job: the policies cancel a warning
    propose        the policies (policies/idle.py, policies/stuck.py) step; policies/ladder.py has the delays
    allowed?       the job may be touched at all, and the arbiter agrees; a refusal is written to the journal once,
                   and what was refused is proposed again after 10 s
    parked?        a rule may park a job first: it is asked to end only if that failed and it is still idle
    before Ask     the steps of before_ask.py are over: stacks are written, the command of the rule has run
    carry out      Warn, CancelWarning, Ask (SIGTERM), Kill (SIGKILL), each through JobActions (see ports.py)
    follow up      once it was asked: whether it left its GPUs; 5 s after it was killed: what survived

Every action is in the journal with its reason and its outcome. A dry run differs in its JobActions alone.
"""

import os
from collections.abc import Sequence
from typing import assert_never

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill, Warn, in_words, kind_of, what_follows
from fallow.core.findings import Outcome, Verdict
from fallow.core.gpu import Snapshot, labels_of
from fallow.core.job import Job, JobActivity
from fallow.core.notices import Notice, NoticeEvent
from fallow.core.protections import Affected, OneProcess, Protection, protection_on
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.core.value import replace
from fallow.engine.history.run import Run
from fallow.engine.jobs.before_ask import Steps, variables
from fallow.engine.jobs.job_state import JobState, Policy, PolicyStep
from fallow.engine.jobs.lineage import Lineage
from fallow.engine.jobs.pauses import Pauses
from fallow.engine.jobs.ports import ActionsFor, JobActions, Parker
from fallow.engine.jobs.protections import labels_with_cards
from fallow.engine.jobs.rest_power import RestPower
from fallow.policies import idle
from fallow.policies.arbiter import ProtectRules, RateLimit, Taken, leave_alone, why_refused

_TRY_AGAIN_AFTER_S = 10.0
_DIES_WITHIN_S = 5.0


class WarnAskKill:
    """Steps the policies for jobs, and does what they propose."""

    def __init__(
        self,
        run: Run,
        actions_for: ActionsFor,
        parker: Parker | None = None,
    ) -> None:
        self._run = run
        self._parker = parker
        self._clock = run.world.clock
        self._journal = run.journal
        self._actions_for = actions_for
        self._protect_rules: ProtectRules | None = None
        self._limit: RateLimit | None = None
        self._taken: list[Taken] = []
        self._parents: dict[str, str] = {}
        self._rest_power = RestPower(run.journal)
        self._pauses = Pauses(run)
        self._lineage = Lineage(run.world)

    def change(self, protect_rules: ProtectRules, limit: RateLimit) -> None:
        """Apply what the config protects, and how many jobs may be stopped; what was done before counts."""
        self._protect_rules, self._limit = protect_rules, limit

    def look(self, state: JobState, snapshot: Snapshot, protections: Sequence[Protection]) -> None:
        """Judge the job by this snapshot, and act."""
        now = self._actions_for(state.job)
        gpus = self._gpus_with_parents(state.job, snapshot)
        alone = self._leave_alone(state, state.asked or now, gpus, protections, snapshot)
        if self._is_parking(state, now, snapshot, gpus, protections, alone):
            return
        for policy in Policy:
            target = state.asked or now
            step = state.propose(policy, snapshot, alone, self._rest_power.known_to(state))
            if step is None:
                continue
            self._pauses.report(state)
            if state.rule.acts and not self._allowed(state, target, step, gpus, protections, snapshot):
                state.refuse(policy, snapshot.at_s)
                continue
            self._rest_power.learn(step)
            state.take(step)
            self._report(state, step)
            if state.rule.acts:
                self._carry_out(state, target, step.actions)

    def _is_parking(
        self,
        state: JobState,
        target: JobActions,
        snapshot: Snapshot,
        gpus: frozenset[str],
        protections: Sequence[Protection],
        alone: Reason | None,
    ) -> bool:
        """Return whether the job is on its way off its GPUs. One that could not be parked is asked to end, if the
        rule says so, nothing protects it by now, and it is still known to be idle; else it starts from the beginning,
        as it does if a process has joined it meanwhile, which nobody was warned of.
        """
        ask = state.parking
        if ask is None or self._parker is None or self._parker.is_under_way(state.job):
            return ask is not None
        result = self._parker.result(state.job)
        is_idle = state.finding(snapshot).activity is JobActivity.IDLE
        if result is not None and not result.parked:
            self._say(state, f"{state.who}: {result.words}")
            state.parking_failed = True
        if (
            not is_idle
            or state.was_joined
            or (result is not None and result.in_doubt)
            or (state.parking_failed and (alone is not None or not ask.stops))
        ):
            self._uncount(state)
            state.begin_again()
            return True
        if not state.parking_failed:  # a dry run would have parked it: nothing more follows until it works
            return True
        stop = replace(ask, parks=False)
        step = PolicyStep(Policy.IDLE, idle.State(), (stop,))
        if self._allowed(state, target, step, gpus, protections, snapshot):
            state.parking, state.parking_failed = None, False
            self._carry_out(state, target, (stop,))
        return True

    def is_over(self, state: JobState, job: Job | None) -> bool:
        """Return whether a job that was asked is off its GPUs; `job` is the job as it is now."""
        if state.asked is None:
            return False
        words = state.asked.is_gone(job)
        if words is None:
            self._name_survivors_when_due(state)
            return False
        if not self._run.dry_run:
            told = Reason("told", sentence=words, step="stopped", **state.facts)
            self._journal.outcome(state.job.subject, "stopped", told, state.job.keys)
            self._say(state, f"{state.who} was stopped: {state.asked_reason}; {words}")
            self._notify("stopped", state, f"was stopped: {state.asked_reason}; {words}")
        return True

    def cancel_warning(self, state: JobState, why: str) -> None:
        """Cancel the warning of a job that the rule no longer judges, or that starts from the beginning."""
        self._carry_out(state, self._actions_for(state.job), (CancelWarning(Reason(why)),))

    def name_survivors(self, state: JobState) -> None:
        """Kill once more what is left of a job that was killed, and say what survives."""
        survivors = state.asked.survivors() if state.asked is not None else ""
        if survivors:
            self._journal.outcome(state.job.subject, "kill what is left of the job", survivors, state.job.keys)
            self._say(state, f"{state.who} could not be ended: {survivors}")

    def _name_survivors_when_due(self, state: JobState) -> None:
        if state.survivors_due_s is not None and self._clock.monotonic_s() >= state.survivors_due_s:
            state.survivors_due_s = None
            self.name_survivors(state)

    def _leave_alone(
        self,
        state: JobState,
        target: JobActions,
        gpus: frozenset[str],
        protections: Sequence[Protection],
        snapshot: Snapshot,
    ) -> Reason | None:
        """Return why the job is to be left alone. A protected pid may be any process below those that hold GPUs.

        Before anything is done to a job, all of its processes are compared with the protections: see `_allowed`.
        """
        mine = {process.pid for process in state.job.members} | {os.getpid()}
        pids = {each.target.pid for each in protections if isinstance(each.target, OneProcess)}
        found = (target.find(pid) for pid in sorted(pids) if not mine.isdisjoint(self._lineage.of(pid)))
        processes = (*state.job.processes, *(each for each in found if each is not None))
        touched = Affected(gpus, processes, labels=labels_with_cards(snapshot.gpus))
        wall_s = self._clock.wall_s()
        alone = state.job.opt_out or leave_alone(touched, wall_s, protections, self._protect_rules)
        protection = protection_on(touched, protections, wall_s)
        state.remember_why_not(alone, protection, wall_s, labels_of(snapshot.gpus))
        return alone

    def _allowed(
        self,
        state: JobState,
        target: JobActions,
        step: PolicyStep,
        gpus: frozenset[str],
        protections: Sequence[Protection],
        snapshot: Snapshot,
    ) -> bool:
        if all(isinstance(action, CancelWarning) for action in step.actions):
            if step.policy is state.refused and (step.actions or not step.state.ladder.fault_s):
                state.refusal = state.refused = None  # what was refused is no longer due
            return True
        now_s = self._clock.monotonic_s()
        if now_s < state.refused_until_s:
            return False
        touched = Affected(gpus, target.describe(), labels=labels_with_cards(snapshot.gpus))
        why = target.forbidden(touched.processes) or self._refused(state, step.actions, touched, now_s, protections)
        if why is not None:
            state.refused_until_s = now_s + _TRY_AGAIN_AFTER_S
            if (why, step.policy) != (state.refusal, state.refused):
                state.refusal, state.refused = why, step.policy
                told = why.with_facts(**state.facts)
                self._journal.refusal(state.job.subject, in_words(step.actions[0]), told, state.job.keys)
                self._run.report.tally.action(kind_of(step.actions[0]), "refused")
            return False
        state.refusal = state.refused = None
        ask = next((action for action in step.actions if isinstance(action, Ask) and not action.parks), None)
        return ask is None or self._is_prepared(state, target, ask, snapshot)

    def _refused(
        self,
        state: JobState,
        actions: Sequence[JobAction],
        touched: Affected,
        now_s: float,
        protections: Sequence[Protection],
    ) -> Reason | None:
        if self._limit is not None:
            self._taken = [taken for taken in self._taken if now_s - taken.at_s < self._limit.per_s]
        found = (
            why_refused(
                action,
                touched,
                at_s=now_s,
                wall_s=self._clock.wall_s(),
                protections=protections,
                protect_rules=self._protect_rules,
                recent=[taken for taken in self._taken if taken is not state.counted],
                limit=self._limit,
            )
            for action in actions
        )
        return next(filter(None, found), None)

    def _is_prepared(self, state: JobState, target: JobActions, ask: Ask, snapshot: Snapshot) -> bool:
        """Begin or go on with what is done before the job is asked to end; return whether that is over."""
        rule, job = state.rule, state.job
        if state.steps is None:
            told = variables(job, rule.name, ask.reason, snapshot)
            state.steps = Steps(target.before_ask(rule.before_ask, told))
            self._count(state)
        for step, outcome in state.steps.advance():
            words = f"dry run: {step.words}" if self._run.dry_run else step.words
            if outcome is None:
                self._journal.action(job.subject, words, ask.reason, job.keys)
                continue
            self._journal.outcome(job.subject, words, outcome.words, job.keys)
            self._say(state, f"{state.who}: {outcome.words}" if rule.name else outcome.words)
        return state.steps.is_over

    def _count(self, state: JobState) -> None:
        """Count the job among those that were asked, so that no more are prepared at once than may be stopped."""
        self._uncount(state)
        state.counted = Taken(self._clock.monotonic_s())
        self._taken.append(state.counted)

    def _uncount(self, state: JobState) -> None:
        self._taken = [taken for taken in self._taken if taken is not state.counted]
        state.counted = None

    def _report(self, state: JobState, step: PolicyStep) -> None:
        """Write down what was found: before an action, and what a rule reports that does not act."""
        verdict = step.verdict
        if verdict is None:
            return
        if step.policy is Policy.STUCK:
            is_stuck = verdict.finding == "stuck"
            if is_stuck and not state.reported_stuck and state.asked is None:
                self._found(state, "stuck", f"looks stuck: {verdict.because}", verdict)
            state.reported_stuck = is_stuck or (state.reported_stuck and verdict.finding != "clear")
        # A job that was asked may be saving its work: what it does then shows nothing.
        if state.rule.acts and step.actions and not any(isinstance(action, Kill) for action in step.actions):
            self._journal.verdict(verdict, state.job.keys)
        if state.rule.acts or step.policy is Policy.STUCK:
            return
        for action in step.actions:
            if isinstance(action, Warn):
                self._found(state, "idle", f"is {action.because}", replace(verdict, reason=action.reason))
            elif isinstance(action, CancelWarning):
                self._journal.verdict(Verdict(state.job.subject, "goes on", action.reason), state.job.keys)

    def _found(self, state: JobState, event: NoticeEvent, sentence: str, verdict: Verdict) -> None:
        self._journal.verdict(replace(verdict, reason=verdict.reason.with_facts(**state.facts)), state.job.keys)
        self._say(state, f"{state.who} {sentence}")
        self._notify(event, state, sentence)

    def _carry_out(self, state: JobState, target: JobActions, actions: Sequence[JobAction]) -> None:
        if self._run.dry_run:
            actions = [_not_asked(each) for each in actions]
        for action in (self._foreseen(state, target, each) for each in actions):
            words = f"dry run: {in_words(action)}" if self._run.dry_run else in_words(action)
            reason = action.reason.with_facts(step=kind_of(action), **state.facts)
            self._journal.action(state.job.subject, words, reason, state.job.keys)
            outcome = self._do(state, target, action)
            if outcome is not None:
                self._journal.outcome(state.job.subject, words, outcome.words, state.job.keys)
            if action is state.parking:
                continue  # it has only begun: who parks it counts what came of it
            done = "dry_run" if self._run.dry_run else "done"
            self._run.report.tally.action(kind_of(action), done if outcome is None or outcome.ok else "failed")

    def _foreseen(self, state: JobState, target: JobActions, action: JobAction) -> JobAction:
        """Return the action; a warning as that of a stop, if it is known by now that the job cannot be parked."""
        if not isinstance(action, Warn) or not (action.parks and action.stops) or self._parker is None:
            return action
        why_not = self._parker.why_not(state.job, target.describe())
        return action if why_not is None else replace(action, parks=False)

    def _do(self, state: JobState, target: JobActions, action: JobAction) -> Outcome | None:
        dry_run = self._run.dry_run
        match action:
            case Warn(reason=reason, ask_in_s=ask_in_s):
                would = "would" if dry_run else "will"
                when = f"{would} be {what_follows(action)} in {duration_for_people(ask_in_s)} unless it works"
                if action.parks:
                    wake = f"fallow wake pid:{state.job.first.pid}"
                    when = f"{when}; parked, its memory leaves the GPU, the process stays, and {wake} brings it back"
                self._say(state, f"{reason}; {state.who} {when}")
                keep = f"To keep it: fallow protect pid:{state.job.first.pid} --for 2h"
                by_notice = self._notify("warned", state, f"was warned: {reason}; it {when}", keep)
                return self._told(target.warn(action), by_notice, self._warn_by_signal(state, target))
            case CancelWarning(reason=reason):
                if state.asked is None:
                    self._uncount(state)
                state.asked = state.asked_reason = state.steps = state.counted = None
                self._say(state, f"{state.who} goes on: {reason}")
                self._notify("goes_on", state, f"goes on: {reason}")
                target.cancel(action)
                return None
            case Ask(reason=reason, parks=True) if self._parker is not None:
                self._say(state, f"{'would park' if dry_run else 'parking'} {state.who}: {reason}")
                state.parking = action
                self._count(state)
                self._parker.begin(state.job, target.describe())
                return None
            case Ask(reason=reason):
                self._say(state, f"{'would stop' if dry_run else 'stopping'} {state.who}: {reason}")
                state.asked, state.asked_reason = target, reason
                self._count(state)
                return target.ask(action)
            case Kill(reason=reason):
                self._say(state, f"{'would kill' if dry_run else 'killing'} what is left of {state.who}: {reason}")
                state.survivors_due_s = self._clock.monotonic_s() + _DIES_WITHIN_S
                return target.kill(action)
        assert_never(action)

    def _warn_by_signal(self, state: JobState, target: JobActions) -> Outcome | None:
        """Send the signal of the warning to the job's processes on GPUs, if the rule has one."""
        if state.rule.warn_signal is None:
            return None
        holders = state.job.pids if isinstance(state.job.pids, frozenset) else frozenset()
        sent = target.warn_by_signal(
            state.rule.warn_signal, holders.union(process.pid for process in state.job.members)
        )
        self._say(state, sent.words)
        return sent

    def _told(self, told: Outcome | None, by_notice: str, by_signal: Outcome | None) -> Outcome | None:
        """Return how people and processes were warned, as one outcome; None if only by what fallow says itself."""
        ways = [told.words if told else "", by_notice, by_signal.words if by_signal else ""]
        words = "; ".join(filter(None, ways))
        return Outcome(told is None or told.ok, words) if words else None

    def _gpus_with_parents(self, job: Job, snapshot: Snapshot) -> frozenset[str]:
        """Return the UUIDs of the job's GPUs, and of the cards of MIG instances, also of those lost since."""
        for gpu in snapshot.gpus:
            if gpu.mig is not None and isinstance(gpu.uuid, str) and isinstance(gpu.mig.parent_uuid, str):
                self._parents[gpu.uuid] = gpu.mig.parent_uuid
        uuids = frozenset(gpu.uuid for gpu in (*job.gpus, *job.doubtful))
        return uuids.union(self._parents[uuid] for uuid in uuids if uuid in self._parents)

    def _say(self, state: JobState, sentence: str) -> None:
        self._run.say(f"rule {state.rule.name}: {sentence}" if state.rule.name else sentence)

    def _notify(self, event: NoticeEvent, state: JobState, sentence: str, advice: str = "") -> str:
        """Send a notice; return how the user of the job is told."""
        first, job = state.job.first, state.job
        key = f"pid:{first.pid}@{first.birth}"
        return self._run.report.notify(Notice(event, key, f"{job.subject} {sentence}", job.user, advice))


def _not_asked(action: JobAction) -> JobAction:
    """Return an action of a dry run, in which nobody was asked to end before."""
    if isinstance(action, Kill) and action.reason.kind == "still_there":
        facts = action.reason.facts
        return replace(action, reason=Reason("would_be_asked", signal=facts["signal"], for_s=facts["for_s"]))
    return action
