"""Park a job by cuCheckpoint: its whole tree is taken off its GPUs, into host memory, or nothing of it is.

Everything here may take minutes, so the daemon calls it in threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from fallow.actuators.process.checkpoint import Checkpoint, CheckpointFailed
from fallow.actuators.process.suspend import StaysOff, put_back, states, take_off
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.jobs.ports import ParkResult
from fallow.engine.machine.world import World
from fallow.engine.park.place import kept_free
from fallow.readers.host_memory import needed_bytes, why_no_room

_MEMORY_IS_BACK_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.25
Parked = tuple[ParkedJob, ParkResult]


class NoRoomYet(FallowError):
    """There is no room in host memory for a job while others are being parked."""


class Checkpoints:
    """Parks and wakes jobs through the driver; several threads may do so at once."""

    def __init__(self, world: World, driver: Checkpoint | None = None) -> None:
        self._world = world
        self._driver = Checkpoint() if driver is None else driver
        self._counting = Lock()
        self._on_their_way: dict[Process, int] = {}
        """How much host memory the jobs need that are being parked, by their first processes."""

    def why_unable(self) -> str | None:
        """Return why no job can be parked here; None if one can. The driver is opened at the first call."""
        if self._world.simulated is not None:
            return "its GPU is simulated, and holds nothing that could be moved"
        return self._driver.why_not()

    def why_never(self, job: ParkedJob) -> str | None:
        """Return why a job cannot be parked, as far as that is known without a look at its processes."""
        return self.why_unable() or self._why_no_room(job)

    def could_park(self, job: ParkedJob) -> Parked:
        """Return how a job would be parked, or why it would not be."""
        why_not = self._why_not(job)
        return job, ParkResult(True, f"would park it: {job.where}") if why_not is None else ParkResult(False, why_not)

    def park(self, job: ParkedJob) -> Parked:
        """Take the whole tree of a job off its GPUs; return it as it is then. What fails in the middle is undone."""
        why_not = self._why_not(job)
        if why_not is not None:
            return job, ParkResult(False, why_not)
        began_s = self._world.clock.monotonic_s()
        try:
            with self._room_for(job):
                take_off(self._driver, self._world.proc, job.processes)
        except NoRoomYet as error:
            return job, ParkResult(False, str(error), in_doubt=True)
        except StaysOff as error:
            return replace(job, trouble=str(error)), ParkResult(True, f"a part of it is parked: {error}")
        except CheckpointFailed as error:
            return job, ParkResult(False, f"{error}; it goes on as before")
        took_s = self._world.clock.monotonic_s() - began_s
        return job, ParkResult(True, f"{job.where}, after {took_s:.1f} s; {job.how_to_wake}")

    def _why_not(self, job: ParkedJob) -> str | None:
        """Return why a job cannot be parked here now; None if nothing is known against it."""
        why_not = self.why_unable()
        if why_not is not None:
            return why_not
        try:
            found = states(self._driver, self._world.proc, job.holders)
            for process in job.holders:
                state = found.get(process)
                if state != "running":
                    return f"pid {process.pid} " + (
                        f"is {state} already"
                        if state
                        else "holds its GPU without CUDA, or has ended, so it cannot be moved"
                    )
        except CheckpointFailed as error:
            return str(error)
        return self._why_no_room(job)

    def wake(self, job: ParkedJob) -> Outcome:
        """Put all of it back on its GPUs, which are kept free for it meanwhile."""
        try:
            with kept_free(self._world, job):
                return self._put_back(job)
        except FallowError as error:
            return Outcome(False, str(error))

    def _put_back(self, job: ParkedJob) -> Outcome:
        """Put all of it back; what fails in the middle is undone, and it stays parked."""
        why_not = self._driver.why_not()
        if why_not is not None:
            return Outcome(False, why_not)
        clock = self._world.clock
        began_s = clock.monotonic_s()
        while True:
            try:
                put_back(self._driver, self._world.proc, job.processes)
            except CheckpointFailed as error:
                if clock.monotonic_s() - began_s >= _MEMORY_IS_BACK_WITHIN_S:
                    return Outcome(False, str(error))
                clock.sleep(_LOOK_AGAIN_S)  # what has just left may still be on its way off the GPU
            else:
                return Outcome(True, f"it is back on its GPUs, after {clock.monotonic_s() - began_s:.1f} s")

    def is_parked(self, job: ParkedJob) -> bool | Unknown:
        """Return what the driver says: whether the job is off its GPUs. A part that was left in between is put back.

        A fallow that is killed while it parks leaves processes locked.
        """
        if self._world.simulated is not None:
            return False
        why_not = self._driver.why_not()
        if why_not is not None:
            return Unknown(why_not)
        try:
            found = set(states(self._driver, self._world.proc, job.processes).values())
            if "locked" in found:
                put_back(self._driver, self._world.proc, job.processes)
                return False
        except CheckpointFailed as error:
            return Unknown(str(error))
        if "checkpointed" in found:
            return True
        if not all(map(self._is_there, job.processes)):  # the driver knows nothing of a process that has ended
            return Unknown("not to be told: processes of it have ended meanwhile")
        return False

    @contextmanager
    def _room_for(self, job: ParkedJob) -> Iterator[None]:
        """Count a job among those on their way. Their memory may be taken already, so that it counts twice."""
        with self._counting:
            others = sum(self._on_their_way.values())
            why_not = self._why_no_room(job, others)
            if why_not is not None:
                raise NoRoomYet(why_not)
            self._on_their_way[job.first] = needed_bytes(job.memory_bytes)
        try:
            yield
        finally:
            with self._counting:
                self._on_their_way.pop(job.first, None)

    def _why_no_room(self, job: ParkedJob, others_bytes: int = 0) -> str | None:
        pids = [process.pid for process in job.processes]
        return why_no_room(self._world.proc, pids, job.memory_bytes, others_bytes)

    def _is_there(self, process: Process) -> bool:
        return not self._world.proc.has_ended(process.pid, process.birth)
