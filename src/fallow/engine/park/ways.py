"""The ways to park a job, in the order in which they are tried: a server that sleeps, then cuCheckpoint.

Everything here may take minutes, so the daemon calls it in threads.
"""

from collections.abc import Sequence

from fallow.actuators.process.checkpoint import Checkpoint
from fallow.actuators.process.suspend import StaysOff
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.jobs.ports import ParkResult
from fallow.engine.machine.world import World
from fallow.engine.park.asleep import Sleepers
from fallow.engine.park.checkpointed import Checkpoints, NoRoomYet
from fallow.engine.park.place import kept_free

_FREE_FOR_A_SERVER_S = 10.0  # it is its user's program, and may never come back
Parked = tuple[ParkedJob, ParkResult]


class Ways:
    """Parks and wakes one job at a time; several threads may do so at once."""

    def __init__(self, world: World, driver: Checkpoint | None = None) -> None:
        self._world = world
        self._checkpoints = Checkpoints(world, driver)
        self._sleepers = Sleepers(world)

    def open(self) -> None:
        """Open the driver, which may take seconds."""
        self._checkpoints.why_unable()

    def why_never(self, job: ParkedJob, holders: Sequence[Process]) -> str | None:
        """Return why a job cannot be parked, without asking it or the driver; None if it is to be tried. Quick."""
        return None if self._sleepers.may_sleep(holders) else self._checkpoints.why_never(job)

    def could_park(self, job: ParkedJob, holders: Sequence[Process]) -> Parked:
        """Return how a job would be parked, or why it would not be."""
        server = self._sleepers.find(job, holders)
        if isinstance(server, Unknown):
            return job, _silent(server)
        if server is not None:
            return server, ParkResult(True, f"would have it sleep: {server.where}")
        why_not = self._checkpoints.why_not(job, holders)
        if why_not is not None:
            return job, ParkResult(False, why_not)
        return job, ParkResult(True, f"would park it: {job.where}")

    def park(self, job: ParkedJob, holders: Sequence[Process]) -> Parked:
        """Park a job; return it as it is then."""
        server, before = self._sleepers.find(job, holders), ""
        if isinstance(server, Unknown):
            return job, _silent(server)
        if server is not None:
            found, slept = self._sleepers.park(server)
            if slept.parked or slept.in_doubt:
                return found, slept
            before = f"{slept.words}; "
        why_not = self._checkpoints.why_not(job, holders)
        if why_not is not None:
            return job, ParkResult(False, f"{before}{why_not}")
        try:
            outcome = self._checkpoints.park(job)
        except NoRoomYet as error:
            return job, ParkResult(False, f"{before}{error}", in_doubt=True)
        except StaysOff as error:
            return replace(job, trouble=str(error)), ParkResult(True, f"{before}a part of it is parked: {error}")
        return job, ParkResult(outcome.ok, outcome.words if outcome.ok else f"{before}{outcome.words}")

    def wake(self, job: ParkedJob) -> Outcome:
        """Wake a job."""
        if job.way is ParkWay.OLLAMA:
            return self._sleepers.wake(job)
        try:
            with kept_free(self._world, job, None if job.way is ParkWay.CHECKPOINT else _FREE_FOR_A_SERVER_S):
                return self._way_of(job).wake(job)
        except FallowError as error:
            return Outcome(False, str(error))

    def is_parked(self, job: ParkedJob) -> bool | Unknown:
        """Return whether a job that was parked still is."""
        return self._way_of(job).is_parked(job)

    def _way_of(self, job: ParkedJob) -> Checkpoints | Sleepers:
        return self._checkpoints if job.way is ParkWay.CHECKPOINT else self._sleepers


def _silent(why: Unknown) -> ParkResult:
    return ParkResult(False, f"whether it can sleep is {why}", in_doubt=True)
