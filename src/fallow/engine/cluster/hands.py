"""Act on the jobs of a cluster: the one door through which a rule warns, asks and ends them.

Before it, the engine was asked again which jobs there are (`confirm`). Each action is in the journal with its reason
and its outcome; one that failed changes nothing, and is tried again some minutes later.
"""

from typing import assert_never

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill, Warn, in_words, kind_of, what_follows
from fallow.core.cluster import ClusterJob
from fallow.core.findings import Outcome
from fallow.core.notices import Notice, NoticeEvent
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.job_state import ClusterJobState
from fallow.engine.cluster.main_thread import MainThread
from fallow.engine.cluster.ports import ClusterEngine
from fallow.engine.history.run import Run
from fallow.policies.cluster_gate import why_another

_TRY_AGAIN_AFTER_S = 300.0
_LONGEST = 500


class ClusterHands:
    """Carries out what the rules propose. Used by the cluster's thread alone."""

    def __init__(self, run: Run, engine: ClusterEngine, main: MainThread) -> None:
        self._run = run
        self._engine = engine
        self._main = main
        self._clock = run.world.clock
        self._now: dict[str, ClusterJob] | Unknown = Unknown("it was not asked", asked=False)

    def confirm(self) -> None:
        """Ask the engine again which jobs there are, before anything is done to some of them."""
        try:
            jobs = self._engine.look().jobs
        except Exception as error:  # noqa: BLE001  whatever broke: it is not known, and nothing is done
            jobs = Unknown(f"{type(error).__name__}: {error}")
        self._now = jobs if isinstance(jobs, Unknown) else {job.key: job for job in jobs}

    def refusal(self, state: ClusterJobState) -> Reason | None:
        """Return why the job must not be touched, by what the engine said when it was asked again."""
        if isinstance(self._now, Unknown):
            return Reason("not_asked_again", why=self._now.why)
        return why_another(state.job, self._now.get(state.job.key))

    def refuse(self, state: ClusterJobState, action: JobAction, why: Reason) -> None:
        """Write down that an action is not done, and why; the same again is not written twice."""
        if state.refusal == why:
            return
        if state.refusal is None or state.refusal.kind != why.kind:
            self._run.journal.refusal(state.job.subject, self._words(state, action), why, state.keys)
            self._main.count(kind_of(action), "refused")
        state.refusal = why

    def carry_out(self, state: ClusterJobState, action: JobAction) -> bool:
        """Carry out one action; return whether it was done, so that the next one may follow some day."""
        if self._run.dry_run and isinstance(action, Kill) and action.reason.kind == "still_there":
            facts = action.reason.facts
            action = replace(action, reason=Reason("would_be_asked", signal=facts["signal"], for_s=facts["for_s"]))
        words = self._words(state, action)
        reason = action.reason.with_facts(step=kind_of(action), rule=state.rule.name)
        self._run.journal.action(state.job.subject, words, reason, state.keys)
        try:
            outcome = self._do(state, action)
        except Exception as error:  # noqa: BLE001  an engine that breaks has done nothing that is known
            outcome = Outcome(False, f"it failed with {type(error).__name__}: {error}")
        said = shortened(printable(outcome.words), _LONGEST)
        self._run.journal.outcome(state.job.subject, words, said, state.keys)
        done = "dry_run" if self._run.dry_run else "done"
        self._main.count(kind_of(action), done if outcome.ok else "failed")
        if not outcome.ok:
            self._say(state, f"failed to {self._what(state, action)}, {state.job.subject}: {said}")
            if not isinstance(action, CancelWarning):
                state.refusal = Reason("failed", action=self._what(state, action), outcome=said)
                state.retry_at_s = self._clock.monotonic_s() + _TRY_AGAIN_AFTER_S
                return False
        state.refusal = None
        self._follow(state, action, said)
        return True

    def was_stopped(self, state: ClusterJobState) -> bool:
        """Report that a job that was asked is gone; return whether it was stopped, as in no dry run."""
        if self._run.dry_run:
            return False
        job, gone = state.job, "it holds no GPU any more"
        told = Reason("told", sentence=gone, step="stopped", rule=state.rule.name)
        self._run.journal.outcome(job.subject, "stopped", told, state.keys)
        sentence = f"was stopped: {state.asked}"
        self._say(state, f"{job.subject} {sentence}")
        self._notify("stopped", state, sentence)
        return True

    def found(self, event: NoticeEvent, state: ClusterJobState, reason: Reason, sentence: str) -> None:
        """Report what a rule found that does not act."""
        self._run.journal.verdict(state.verdict(event, reason), state.keys)
        self._say(state, f"{state.job.subject} {sentence}")
        self._notify(event, state, sentence)

    def came_back(self, state: ClusterJobState) -> None:
        """Report that a job that was stopped is there again, and is left alone."""
        sentence = "came back after it was stopped; from now on the rules only report it"
        self._run.journal.outcome(state.job.subject, "came back", sentence, [state.job.key])
        self._say(state, f"{state.job.subject} {sentence}")
        self._notify("stopped", state, sentence)

    def _do(self, state: ClusterJobState, action: JobAction) -> Outcome:
        match action:
            case Warn():
                return self._engine.warn(state.job, action)
            case CancelWarning():
                return self._engine.cancel(state.job, action)
            case Ask():
                return self._engine.ask(state.job, action)
            case Kill():
                return self._engine.kill(state.job, action)
        assert_never(action)

    def _follow(self, state: ClusterJobState, action: JobAction, said: str) -> None:
        """Remember what was done, and tell people."""
        job, dry_run, reason = state.job, self._run.dry_run, action.reason
        match action:
            case Warn(ask_in_s=ask_in_s):
                state.warned = reason
                would = "would" if dry_run else "will"
                when = f"{would} be {what_follows(action)} in {duration_for_people(ask_in_s)} unless it works"
                self._say(state, f"{reason}; {job.subject} {when}")
                keep = f"To keep it: fallow protect {job.key} --for 2h"
                self._notify("warned", state, f"was warned: {reason}; it {when}", keep)
            case CancelWarning():
                state.warned = state.asked = None
                self._say(state, f"{job.subject} goes on: {reason}")
                self._notify("goes_on", state, f"goes on: {reason}")
            case Ask():
                state.warned, state.asked = None, reason
                self._say(state, f"{'would stop' if dry_run else 'stopping'} {job.subject}: {reason}; {said}")
            case Kill():
                self._say(state, f"{'would end' if dry_run else 'ending'} {job.subject}: {reason}; {said}")
            case _:
                assert_never(action)

    def _words(self, state: ClusterJobState, action: JobAction) -> str:
        what = self._what(state, action)
        return f"dry run: {what}" if self._run.dry_run else what

    def _what(self, state: ClusterJobState, action: JobAction) -> str:
        """Return what the engine does to the job: it may requeue it, or scale it to zero."""
        return self._engine.way(state.job, action) if isinstance(action, Ask | Kill) else in_words(action)

    def _say(self, state: ClusterJobState, sentence: str) -> None:
        self._main.say(f"cluster rule {state.rule.name}: {sentence}" if state.rule.name else f"cluster: {sentence}")

    def _notify(self, event: NoticeEvent, state: ClusterJobState, sentence: str, advice: str = "") -> None:
        job = state.job
        notice = Notice(event, job.key, printable(f"{job.subject} {sentence}"), job.user, advice)
        self._main.notify(notice, job.subject, state.keys)
