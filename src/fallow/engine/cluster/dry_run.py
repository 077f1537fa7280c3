"""The hands of a dry run: they look at the cluster as the real ones do, and only say what those would do."""

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob
from fallow.core.findings import Outcome
from fallow.engine.cluster.ports import ClusterEngine, EngineLook


class DryRunEngine:
    """Looks through a real engine, and acts on nothing."""

    def __init__(self, real: ClusterEngine) -> None:
        self.engine = real.engine
        self._real = real

    def look(self) -> EngineLook:
        """Return what the real engine sees."""
        return self._real.look()

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return what the real engine would do."""
        return self._real.way(job, action)

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:  # noqa: ARG002  as the port has it
        """Say whom it would warn."""
        return Outcome(True, f"would warn the people of {job.subject}")

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:  # noqa: ARG002  as the port has it
        """Say that it would take the warning back."""
        return Outcome(True, "would take the warning back")

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Say what it would do."""
        return Outcome(True, f"would {self._real.way(job, action)}")

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        """Say what it would do."""
        return Outcome(True, f"would {self._real.way(job, action)}")
