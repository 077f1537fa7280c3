"""The ways to park a job, in the order in which they are tried: a server that sleeps, then cuCheckpoint.

Everything here may take a minute, so the daemon calls it in threads.
"""

from collections.abc import Sequence

from fallow.actuators.process.suspend import StaysOff
from fallow.core.findings import Outcome
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.park.checkpointed import Checkpoints


class Ways:
    """Parks and wakes one job at a time; several threads may do so at once."""

    def __init__(self, world: World) -> None:
        self._checkpoints = Checkpoints(world)

    def could_park(self, job: ParkedJob, holders: Sequence[Process]) -> tuple[ParkedJob, Outcome]:
        """Return how a job would be parked, or why it would not be."""
        why_not = self._checkpoints.why_not(job, holders)
        if why_not is not None:
            return job, Outcome(False, f"it would not be parked: {why_not}")
        return job, Outcome(True, f"would park it: {job.where}")

    def park(self, job: ParkedJob, holders: Sequence[Process]) -> tuple[ParkedJob, Outcome]:
        """Park a job; return it as it is then."""
        why_not = self._checkpoints.why_not(job, holders)
        if why_not is not None:
            return job, Outcome(False, why_not)
        try:
            return job, self._checkpoints.park(job)
        except StaysOff as error:
            return replace(job, trouble=str(error)), Outcome(True, f"a part of it is parked: {error}")

    def wake(self, job: ParkedJob) -> Outcome:
        """Wake a job."""
        return self._checkpoints.wake(job)

    def is_parked(self, job: ParkedJob) -> bool | Unknown:
        """Return whether a job that was parked still is."""
        return self._checkpoints.is_parked(job)
