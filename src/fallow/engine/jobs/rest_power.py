"""What GPUs draw with a context and no work: learned from jobs, and kept in the journal for the next run."""

from fallow.engine.history.journal import Journal
from fallow.engine.jobs.job_state import JobState, PolicyStep
from fallow.policies import stuck


class RestPower:
    """The power of each GPU at rest, by UUID; read when the first rule needs it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, float] | None = None

    def known_to(self, state: JobState) -> dict[str, float]:
        """Return what is known, for a rule that looks for hangs; nothing for others."""
        if self._known is None:
            if state.rule.stuck is None:
                return {}
            self._known = self._journal.rest_power_w()
        return self._known

    def learn(self, step: PolicyStep) -> None:
        """Keep what a step has found, for all jobs and for the next run."""
        if self._known is None or not isinstance(step.state, stuck.State):
            return
        for uuid, watts in step.state.rest_w.items():
            if self._known.get(uuid) != watts:
                self._known[uuid] = watts
                self._journal.remember_rest_power(uuid, watts)
