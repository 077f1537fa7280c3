"""Read from what the driver lists how much GPU memory a job holds, and whether one that sleeps has let go of it.

A server that sleeps says so itself, and any program can say it. One that keeps its memory all the same is not parked:
rules judge it again, and it is not asked to sleep a second time.
"""

from collections.abc import Iterable

from fallow.core.gpu import Snapshot
from fallow.core.job import Job
from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown

_LOOKS = 3  # the driver may list the memory a moment longer
_KEPT = 0.5  # a server that sleeps keeps its contexts, some hundred MiB for each GPU
_MOST = 1000
Sizes = tuple[tuple[str, int], ...]


def held_by(snapshot: Snapshot | None, uuids: Iterable[str], pids: set[int]) -> Sizes | Unknown:
    """Return how much processes hold of each of these GPUs."""
    found: list[tuple[str, int]] = []
    for uuid in uuids:
        gpu = next((each for each in snapshot.gpus if each.uuid == uuid), None) if snapshot else None
        if gpu is None or isinstance(gpu.holders, Unknown):
            return Unknown(f"what it holds of GPU {uuid} is not known")
        size = 0
        for holder in gpu.holders:
            if holder.pid in pids:
                if isinstance(holder.memory_bytes, Unknown):
                    return Unknown(f"how much GPU memory pid {holder.pid} holds is {holder.memory_bytes}")
                size += holder.memory_bytes
        found.append((uuid, size))
    return tuple(found)


class KeptMemory:
    """Finds the servers that say that they sleep and keep their memory, and remembers them."""

    def __init__(self) -> None:
        self._looks: dict[Process, int] = {}
        self._known: set[Process] = set()

    def found(self, jobs: Iterable[ParkedJob], snapshot: Snapshot) -> list[ParkedJob]:
        """Return those of the jobs that have kept their memory for some looks; to be called at each."""
        looks: dict[Process, int] = {}
        found: list[ParkedJob] = []
        for job in jobs:
            if job.way is not ParkWay.CHECKPOINT and _keeps(job, snapshot):
                looks[job.first] = self._looks.get(job.first, 0) + 1
                if looks[job.first] >= _LOOKS:
                    found.append(job)
        self._looks = looks
        for job in found:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known.update(job.holders)
        return found

    def why_not(self, job: Job) -> str | None:
        """Return why a job is not asked to sleep again."""
        if self._known.isdisjoint(job.members):
            return None
        return "it has said before that it sleeps, and has kept its GPU memory"


def _keeps(job: ParkedJob, snapshot: Snapshot) -> bool:
    """Return whether the processes that held its GPUs are known to hold most of it still."""
    now = held_by(snapshot, job.uuids, {process.pid for process in job.holders})
    return not isinstance(now, Unknown) and sum(size for _, size in now) > _KEPT * job.memory_bytes > 0
