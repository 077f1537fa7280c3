"""Notice jobs that were stopped and came back, so that a rule does not stop the same thing in circles.

What comes back onto a GPU within a minute was started again by its owner, or by a person who wants it. It is told
once, and from then on the rules only report it.
"""

from collections.abc import Hashable

from fallow.core.job import Job
from fallow.core.notices import Notice
from fallow.core.owner import Owner
from fallow.core.value import replace
from fallow.engine.history.run import Run

_COMES_BACK_WITHIN_S = 60.0
_MOST = 1000


class ReturnedJobs:
    """Remembers what was stopped, and what came back."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clock = run.world.clock
        self._stopped: dict[Hashable, tuple[float, Owner]] = {}
        self._returned: dict[Hashable, None] = {}

    def stopped(self, job: Job) -> None:
        """Remember a job that was stopped just now."""
        if self._run.dry_run:
            return
        now_s = self._clock.monotonic_s()
        recent = {each: was for each, was in self._stopped.items() if now_s - was[0] < _COMES_BACK_WITHIN_S}
        self._stopped = recent | {_identity(job): (now_s, job.owner)}

    def has_returned(self, job: Job) -> bool:
        """Return whether this job was stopped and came back; say so when it does."""
        identity = _identity(job)
        if identity in self._returned:
            return True
        at_s, owner = self._stopped.pop(identity, (-_COMES_BACK_WITHIN_S, job.owner))
        if self._clock.monotonic_s() - at_s >= _COMES_BACK_WITHIN_S:
            return False
        job = replace(job, owner=owner)  # whose name is known already
        while len(self._returned) >= _MOST:
            del self._returned[next(iter(self._returned))]
        self._returned[identity] = None
        starter = job.owner.public_label or "a person or a program"
        sentence = f"came back after it was stopped, started by {starter}; from now on the rules only report it"
        self._run.say(f"{job.subject} {sentence}")
        self._run.journal.outcome(job.subject, "came back", sentence, job.keys)
        first = job.first
        key = f"pid:{first.pid}@{first.birth}"
        self._run.report.notify(Notice("stopped", key, f"{job.subject} {sentence}", job.user))
        return True


def _identity(job: Job) -> Hashable:
    """Return what a job has in common with itself after a restart, and with no other: its owner, or what it is."""
    if job.owner.is_asked:
        return job.owner.key
    return job.user, frozenset(job.members.values()), frozenset(job.uuids)
