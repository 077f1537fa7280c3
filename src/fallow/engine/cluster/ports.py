"""The ports of the cluster: an engine that lists jobs, what can be done to one, and who reads the metrics.

Every call may take seconds, and is made in the cluster's own thread. None raises for what a server answered or did
not answer: that is Unknown, or an Outcome that is not ok.
"""

from typing import Protocol

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob, ClusterNode, Engine, Readings
from fallow.core.findings import Outcome
from fallow.core.unknown import Unknown
from fallow.core.value import value


@value
class EngineLook:
    """What an engine says at one look."""

    jobs: tuple[ClusterJob, ...] | Unknown
    nodes: tuple[ClusterNode, ...] | Unknown
    pending_gpus: int | Unknown


class ClusterEngine(Protocol):
    """Lists the jobs that hold GPUs, and acts on them."""

    engine: Engine

    def look(self) -> EngineLook:
        """Return all jobs that hold GPUs now, the nodes with GPUs, and how many GPUs are waited for."""

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return what the action does, after "would": a dry run says it."""

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        """Warn the people of the job where they look."""

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        """Take the warning back, where it was written down."""

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Ask the job to end, if it is still the job that was judged; the outcome names the right that is missing."""

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        """End what is left of the job."""


class Eyes(Protocol):
    """Reads what all GPUs of the cluster did."""

    def read(self) -> Readings:
        """Return what they did since the last call; the first one covers a minute at most."""
