"""Look at the GPUs after jobs were stopped: how much memory is free again, and what came back onto them."""

from collections.abc import Iterable, Sequence

from fallow.core.activity import unseen_memory_bytes
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.units import bytes_for_people
from fallow.core.unknown import Unknown, known
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.stop.find import JobsByHand
from fallow.engine.stop.stop import Stage, StoppedJob

_MEMORY_IS_BACK_WITHIN_S = 5.0
_COMES_BACK_WITHIN_S = 2.0
_LOOK_AGAIN_S = 0.1
_NEWS_BYTES = 1 << 20


@value
class FreedGpu:
    """A GPU after what was stopped on it."""

    gpu: Gpu
    freed_bytes: int | Unknown
    unseen_bytes: int | Unknown
    """How much of its memory no process that is listed holds."""

    @property
    def is_back(self) -> bool:
        """Return whether what the jobs held is free: nobody unseen holds more than before they were stopped."""
        before = unseen_memory_bytes(self.gpu)
        return not isinstance(self.unseen_bytes, Unknown) and self.unseen_bytes <= known(before, 0)

    @property
    def says_something(self) -> bool:
        """Return whether a person should read of it: less than a MiB is no news."""
        unseen = not isinstance(self.unseen_bytes, Unknown) and self.unseen_bytes > 0
        return unseen or isinstance(self.freed_bytes, Unknown) or self.freed_bytes >= _NEWS_BYTES

    @property
    def in_words(self) -> str:
        """Return `GPU 3: 20.1 GiB are free again`, or what is wrong."""
        where = f"GPU {self.gpu.label}"
        if isinstance(self.freed_bytes, Unknown):
            return f"{where}: whether its memory is free again is {self.freed_bytes}"
        freed = f"{where}: {bytes_for_people(self.freed_bytes)} are free again"
        if not isinstance(self.unseen_bytes, Unknown) and self.unseen_bytes:
            return f"{freed}, and {bytes_for_people(self.unseen_bytes)} are still held by no process that is listed"
        return freed


def look_afterwards(
    world: World, jobs: JobsByHand, stopped: Sequence[StoppedJob], held_before: set[Process]
) -> list[FreedGpu]:
    """Return the GPUs of the stopped jobs, as soon as their memory is back and it has shown who comes back.

    A process that held a GPU before the stop has not come back.
    """
    gone = [each for each in stopped if each.stage is Stage.STOPPED]
    before = {gpu.uuid: gpu for each in gone for gpu in each.found.gpus}
    if not before:
        return []
    began_s = world.clock.monotonic_s()
    while True:
        snapshot = jobs.look()
        now = jobs.jobs(snapshot)
        for each in gone:
            each.came_back = each.came_back or _came_back(each.found.job, now, held_before)
        freed = [_freed(gpu, snapshot) for gpu in before.values()]
        waited_s = world.clock.monotonic_s() - began_s
        is_back = all(each.is_back for each in freed)
        if waited_s >= (_COMES_BACK_WITHIN_S if is_back else _MEMORY_IS_BACK_WITHIN_S):
            return freed
        world.clock.sleep(_LOOK_AGAIN_S)


def _freed(before: Gpu, snapshot: Snapshot) -> FreedGpu:
    now = next((gpu for gpu in snapshot.gpus if gpu.uuid == before.uuid), None)
    if now is None:
        lost = Unknown("the GPU is not there any more")
        return FreedGpu(before, lost, lost)
    for memory in (before.memory, now.memory):
        if isinstance(memory, Unknown):
            return FreedGpu(before, memory, memory)
    assert not isinstance(before.memory, Unknown)
    assert not isinstance(now.memory, Unknown)
    freed = max(0, before.memory.used_bytes - now.memory.used_bytes)
    return FreedGpu(before, freed, unseen_memory_bytes(now))


def _came_back(job: Job, now: Iterable[Job], before: set[Process]) -> bool:
    """Return whether a process is on its GPUs that the same owner has started, or is of the same user and command."""
    lines = set(job.members.values())
    for each in now:
        if set(job.uuids).isdisjoint(each.uuids):
            continue
        new = {process: line for process, line in each.members.items() if process not in before}
        if job.owner.is_asked:
            if each.owner.key == job.owner.key:
                return bool(new)
        elif each.user == job.user and not lines.isdisjoint(new.values()):
            return True
    return False
