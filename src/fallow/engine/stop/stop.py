"""Stop the jobs that a person named: ask, wait for the grace, kill, and see that they are gone.

The same steps as for a rule, without the warning, since the person was asked: policies/ladder.py has the delays,
policies/arbiter.py and the protections may refuse each of them, engine/jobs/ports.py acts, and the journal has each
with its reason and its outcome. All jobs are stopped side by side.

    before each step   protections are read again, and who the processes are is checked by their birth
    asked              an owner that refuses or does not answer leaves the job as it is: no signal follows
    killed             what is left 5 s later is named
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from fallow.core.actions import Ask, CancelWarning, Kill, in_words, kind_of
from fallow.core.findings import Outcome
from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.protections import Affected
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.engine.history.run import Run
from fallow.engine.jobs.ports import ActionsFor, JobActions
from fallow.engine.jobs.protections import labels_with_cards, uuids_with_cards
from fallow.engine.owners.actions import OwnerJobActions
from fallow.engine.stop.find import FoundJob, JobsByHand
from fallow.policies.arbiter import ProtectRules, why_refused
from fallow.policies.ladder import Ladder, LadderRules, Rung, Sign, climb

_LOOK_AGAIN_S = 0.1
_DIES_WITHIN_S = 5.0
_OWNER_TAKES_S = 20.0
_ENDING = frozenset({"owner_unknown", "owner_silent", "command_unknown"})
"""What cannot be read of a process that is about to end, which was asked to: no reason to take the stop back."""


class Stage(StrEnum):
    """How far the stop of a job has come."""

    UNTOUCHED = "untouched"
    ASKED = "asked"
    STOPPED = "stopped"
    LEFT = "left"


class StoppedJob:
    """One job, how far its stop has come, and what came of it."""

    def __init__(self, found: FoundJob) -> None:
        self.found = found
        self.stage = Stage.UNTOUCHED
        self.because = ""
        self.reason: Reason | None = None
        """Why it was left alone."""
        self.came_back = False

    def end(self, stage: Stage, because: str | Reason) -> None:
        """Note what came of it."""
        self.stage, self.because = stage, str(because)
        self.reason = because if isinstance(because, Reason) else None


class _Asked:
    """A job that was asked to end."""

    def __init__(self, stopped: StoppedJob, actions: JobActions, now_s: float) -> None:
        self.stopped = stopped
        self.actions = actions
        self.ladder = Ladder(Rung.ASKED)
        self.began_s = self.seen_s = now_s
        self.killed_s: float | None = None


class StopByHand:
    """Stops jobs. What came of each is in what `stop` was given, at any moment."""

    def __init__(
        self, run: Run, jobs: JobsByHand, actions_for: ActionsFor, protect_rules: ProtectRules, grace_s: float
    ) -> None:
        self._run = run
        self._clock = run.world.clock
        self._jobs = jobs
        self._actions_for = actions_for
        self._protect_rules = protect_rules
        self._grace_s = grace_s
        self._ask = Ask(Reason("by_hand", user=run.world.user), "TERM", grace_s)

    def way(self, found: FoundJob) -> str:
        """Return what is done to the job, after `would`."""
        return self._actions_for(found.job).way(self._ask)

    def refusal(self, found: FoundJob) -> Reason | None:
        """Return why the job must be left alone now, or None."""
        return found.job.opt_out or self._refused(found, self._actions_for(found.job), self._ask)

    def stop(self, jobs: Sequence[StoppedJob]) -> set[Process]:
        """Stop these jobs, and wait until each is gone, or is known to be left.

        Return all processes that held GPUs before: none of them is one that came back.
        """
        _, found = self._jobs.jobs_with_owners()  # a person may have thought for long: owners are asked again
        before = {process for job in found for process in job.members}
        under_way = [asked for asked in map(self._begin, jobs) if asked is not None]
        while under_way:
            now = {job.key: job for job in self._jobs.jobs(self._jobs.look())}
            under_way = [
                asked for asked in under_way if not self._is_over(asked, now.get(asked.stopped.found.job.key))
            ]
            if under_way:
                self._clock.sleep(_LOOK_AGAIN_S)
        return before

    def _begin(self, stopped: StoppedJob) -> _Asked | None:
        job = stopped.found.job
        if not any(self._is_alive(process.pid, process.birth) for process in job.members):
            stopped.end(Stage.STOPPED, "it had ended before")
            return None
        actions = self._actions_for(job)
        why = job.opt_out or self._refused(stopped.found, actions, self._ask)
        if why is not None:
            self._leave(stopped, self._ask, why)
            return None
        stopped.stage = Stage.ASKED
        outcome = self._recorded(job, self._ask, lambda: actions.ask(self._ask))
        self._run.say(f"stopping {job.subject}: {outcome.words}")
        return _Asked(stopped, actions, self._clock.monotonic_s())

    def _is_over(self, asked: _Asked, job: Job | None) -> bool:
        stopped, actions, now_s = asked.stopped, asked.actions, self._clock.monotonic_s()
        failure = actions.failure if isinstance(actions, OwnerJobActions) else None
        gone = actions.is_gone(job)
        if gone is not None:
            self._journal_end(stopped, gone)
            stopped.end(Stage.STOPPED, gone)
            return True
        if failure is not None:
            stopped.end(Stage.LEFT, Reason("owner_failed", why=failure))
            self._run.journal.outcome(stopped.found.job.subject, "stop", stopped.because, stopped.found.job.keys)
            return True
        if asked.killed_s is not None:
            return now_s - asked.killed_s >= _DIES_WITHIN_S and self._name_survivors(asked)
        return self._climb(asked, now_s)

    def _climb(self, asked: _Asked, now_s: float) -> bool:
        """Let the ladder decide whether the grace is over; return whether the job is left alone now."""
        if isinstance(asked.actions, OwnerJobActions) and not asked.actions.is_answered:
            return False  # an owner that stops it needs no signal, and one that does not would start it again
        passed_s, asked.seen_s = now_s - asked.seen_s, now_s
        rules = LadderRules(0.0, self._grace_s, signal="TERM")
        kill = Kill(Reason("by_hand", user=self._run.world.user))
        alone = self._refused(asked.stopped.found, asked.actions, kill)
        if alone is not None and alone.kind in _ENDING:
            alone = None
        asked.ladder, actions = climb(asked.ladder, passed_s, Sign.FAULT, kill.reason, rules, alone)
        for action in actions:
            if isinstance(action, CancelWarning):
                self._leave(asked.stopped, kill, action.reason)
                return True
            if isinstance(action, Kill):
                self._kill(asked, action, now_s)
        return False

    def _kill(self, asked: _Asked, action: Kill, now_s: float) -> None:
        job = asked.stopped.found.job
        asked.killed_s = now_s
        outcome = self._recorded(job, action, lambda: asked.actions.kill(action))
        self._run.say(f"killing what is left of {job.subject}: {outcome.words}")

    def _name_survivors(self, asked: _Asked) -> bool:
        """Return whether it is over for a job that was killed: something survives, or its owner takes too long."""
        survivors = asked.actions.survivors()
        waited_s = self._clock.monotonic_s() - asked.began_s
        if not survivors and waited_s < self._grace_s + _OWNER_TAKES_S:
            return False
        words = survivors or f"it is still on its GPUs after {duration_for_people(waited_s)}"
        asked.stopped.end(Stage.LEFT, words)
        job = asked.stopped.found.job
        self._run.journal.outcome(job.subject, "kill what is left of the job", words, job.keys)
        return True

    def _refused(self, found: FoundJob, actions: JobActions, action: Ask | Kill) -> Reason | None:
        touched = Affected(uuids_with_cards(found.gpus), actions.describe(), labels=labels_with_cards(found.gpus))
        forbidden = actions.forbidden(touched.processes)
        if forbidden is not None:
            return forbidden
        wall_s = self._clock.wall_s()
        return why_refused(
            action,
            touched,
            at_s=self._clock.monotonic_s(),
            wall_s=wall_s,
            protections=self._run.world.protections.active(wall_s),
            protect_rules=self._protect_rules,
        )

    def _leave(self, stopped: StoppedJob, action: Ask | Kill, why: Reason) -> None:
        job = stopped.found.job
        self._run.journal.refusal(job.subject, in_words(action), why, job.keys)
        stopped.end(Stage.LEFT, why)

    def _recorded(self, job: Job, action: Ask | Kill, do: Callable[[], Outcome]) -> Outcome:
        """Write an action to the journal, do it, and write its outcome."""
        words = in_words(action)
        self._run.journal.action(job.subject, words, action.reason.with_facts(step=kind_of(action)), job.keys)
        outcome = do()
        self._run.journal.outcome(job.subject, words, outcome.words, job.keys)
        return outcome

    def _journal_end(self, stopped: StoppedJob, words: str) -> None:
        job = stopped.found.job
        self._run.journal.outcome(job.subject, "stopped", Reason("told", sentence=words, step="stopped"), job.keys)

    def _is_alive(self, pid: int, birth: int) -> bool:
        return not self._run.world.proc.has_ended(pid, birth)
