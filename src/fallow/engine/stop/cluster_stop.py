"""Stop jobs of a cluster that a person named, with that person's own rights there: the engine decides what they may.

The same steps as for a job of this machine: what is protected is left alone, it is asked, after the grace ended, and
seen to be gone; the journal has each step with its reason and its outcome. Between the steps the engine is asked
again. What it does not answer is no sign that the job is gone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fallow.core.actions import Ask, Kill, kind_of
from fallow.core.cluster import ClusterJob
from fallow.core.errors import FallowError, NothingFound
from fallow.core.findings import Outcome
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.cluster.ports import ClusterEngine
from fallow.engine.history.run import Run
from fallow.engine.stop.protected import protected_for_good
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import covers, left_alone, was_started_again
from fallow.readers.accounts import groups_of

_LOOK_AGAIN_S = 0.5
_ENDS_WITHIN_S = 90.0
_LONGEST = 300


@value
class ClusterStopped:
    """What came of one job: whether it is gone, and why not, for people and for programs."""

    job: ClusterJob
    gone: bool
    words: str
    reason: Reason | None = None
    not_permitted: bool = False
    """True if the engine does not let this person do it."""


def engine_of_key(run: Run, key: str) -> ClusterEngine:
    """Return the engine that has the job of this key, as the person who asks may use it. Raise FallowError."""
    from fallow.engine.cluster.compose import engine_of
    from fallow.engine.config.cluster import Cluster

    return engine_of(run, Cluster(engine="slurm" if key.startswith("slurm:") else "kubernetes"))


class ClusterStop:
    """Stops jobs through one engine."""

    def __init__(self, run: Run, engine: ClusterEngine, grace_s: float) -> None:
        self._run = run
        self._engine = engine
        self._clock = run.world.clock
        kept = protected_for_good(run)
        groups = partial(groups_of, among=kept.groups)
        self._protect = ProtectRules(frozenset(kept.users), kept.commands, kept.groups, groups)
        self._grace_s = grace_s
        self._reason = Reason("by_hand", user=run.world.user)
        self._ask = Ask(self._reason, "TERM", grace_s)

    def meant(self, targets: Sequence[OneClusterJob | ClusterPart]) -> list[ClusterJob]:
        """Return the jobs that are meant; raise NothingFound for a name without a job, FallowError without answer."""
        jobs = self._engine.look().jobs
        if isinstance(jobs, Unknown):
            engine = self._engine.engine
            listed = f"the jobs of {engine.proper_name} cannot be listed: {jobs.why}"
            raise FallowError(printable(listed), engine.remedy(self._run.world.environ))
        found: dict[str, ClusterJob] = {}
        for target in targets:
            these = [job for job in jobs if covers(target, job, frozenset())]
            if not these:
                raise NothingFound(f"{target} holds no GPU now, or does not exist", "see: fallow status --cluster")
            found.update((job.key, job) for job in these)
        return list(found.values())

    def way(self, job: ClusterJob) -> str:
        """Return what is done to the job, after `would`."""
        return self._engine.way(job, self._ask)

    def refusal(self, job: ClusterJob) -> Reason | None:
        """Return why the job must be left alone now, or None."""
        if job.no_way is not None:
            return Reason("no_way", why=job.no_way)
        wall_s = self._clock.wall_s()
        protections = self._run.world.protections.active(wall_s)
        return left_alone(job, frozenset(), protections, self._protect, wall_s, frozenset(("root",)))

    def stop(self, job: ClusterJob) -> ClusterStopped:
        """Ask the job to end, end it after the grace, and return once it is gone, or is known to be left."""
        why = self.refusal(job)
        if why is not None:
            return self._refused(job, self._ask, why)
        asked = self._recorded(job, self._ask, partial(self._engine.ask, job, self._ask))
        if not asked.ok:
            return ClusterStopped(job, False, asked.words, not_permitted=asked.not_permitted)
        self._run.say(f"stopping {job.subject}: {asked.words}")
        left = self._left(job, self._grace_s)
        if left is None:
            return self._gone(job, asked.words)
        kill = Kill(self._reason)
        # What its people said during the grace counts too; and what nobody lists now may be another job.
        if isinstance(left, Unknown):
            return self._refused(job, kill, Reason("not_asked_again", why=left.why))
        why = self.refusal(left)
        if why is not None:
            return self._refused(left, kill, why)
        killed = self._recorded(left, kill, partial(self._engine.kill, left, kill))
        self._run.say(f"ending what is left of {job.subject}: {killed.words}")
        within_s = left.own_grace_s + _ENDS_WITHIN_S if killed.ok else self._grace_s
        left = self._left(left, within_s)
        if left is None:
            return self._gone(job, killed.words)
        waited = duration_for_people(self._grace_s + within_s)
        words = f"it still holds its GPUs after {waited}" if killed.ok else killed.words
        if isinstance(left, Unknown):
            words = f"{killed.words}; whether it has ended is not known: {left.why}"
        self._run.journal.outcome(job.subject, "stop", words, [job.key])
        return ClusterStopped(job, False, words, not_permitted=killed.not_permitted)

    def _refused(self, job: ClusterJob, action: Ask | Kill, why: Reason) -> ClusterStopped:
        self._run.journal.refusal(job.subject, self._engine.way(job, action), why, [job.key])
        return ClusterStopped(job, False, str(why), why)

    def _gone(self, job: ClusterJob, words: str) -> ClusterStopped:
        told = Reason("told", sentence="it holds no GPU any more", step="stopped")
        self._run.journal.outcome(job.subject, "stopped", told, [job.key])
        return ClusterStopped(job, True, words)

    def _left(self, job: ClusterJob, within_s: float) -> ClusterJob | Unknown | None:
        """Return the job as it is after so long; None as soon as it is gone, Unknown if nobody can tell."""
        until_s = self._clock.monotonic_s() + within_s
        while True:
            jobs = self._engine.look().jobs
            now = jobs if isinstance(jobs, Unknown) else next((each for each in jobs if each.key == job.key), None)
            if now is None or (isinstance(now, ClusterJob) and was_started_again(job, now)):
                return None
            if self._clock.monotonic_s() >= until_s:
                return now
            self._clock.sleep(_LOOK_AGAIN_S)

    def _recorded(self, job: ClusterJob, action: Ask | Kill, do: Callable[[], Outcome]) -> Outcome:
        """Write an action to the journal, do it, and write its outcome."""
        words = self._engine.way(job, action)
        self._run.journal.action(job.subject, words, action.reason.with_facts(step=kind_of(action)), [job.key])
        outcome = do()
        said = shortened(printable(outcome.words), _LONGEST)
        self._run.journal.outcome(job.subject, words, said, [job.key])
        return replace(outcome, words=said)
