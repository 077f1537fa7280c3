"""Report that a condition of a job cannot be told, so that the job is not counted as idle."""

from fallow.core.findings import Verdict
from fallow.core.process import Process
from fallow.engine.history.run import Run
from fallow.engine.jobs.job_state import JobState

_MOST = 10_000


class Pauses:
    """Reports once for each rule, job and condition, so that nobody can fill the log."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reported: set[tuple[str, Process, str]] = set()

    def report(self, state: JobState) -> None:
        """Report what pauses the job, if anything does that was not reported."""
        why = state.paused
        if why is None:
            return
        key = state.rule.name, state.job.first, str(why.facts["condition"])
        if key in self._reported:
            return
        if len(self._reported) >= _MOST:
            self._reported.clear()
        self._reported.add(key)
        self._run.journal.verdict(Verdict(state.job.subject, "paused", why), state.job.keys)
        sentence = f"{state.who} is not counted as idle: {why}"
        self._run.say(f"rule {state.rule.name}: {sentence}" if state.rule.name else sentence)
