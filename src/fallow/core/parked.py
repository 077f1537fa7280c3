"""A parked job: its memory is off its GPUs, its processes live, and it can be woken.

PARKING   its memory is on its way off the GPUs
PARKED    it is off, in host memory
WAKING    it is on its way back
"""

from enum import StrEnum

from fallow.core.job import GpuKey, Job
from fallow.core.owner import Owner, OwnerKind
from fallow.core.process import Process
from fallow.core.units import bytes_for_people
from fallow.core.value import value


class ParkStage(StrEnum):
    """How far a job is on its way off its GPUs or back."""

    PARKING = "parking"
    PARKED = "parked"
    WAKING = "waking"


@value
class ParkedJob:
    """A job that was parked. Its first process identifies it."""

    first: Process
    processes: tuple[Process, ...]
    """All processes that were taken off."""
    user: str
    name: str
    """Its name for people, as everybody may read it."""
    gpus: tuple[tuple[str, int], ...]
    """The UUIDs of the GPUs that it held, and how many bytes it held of each."""
    since_wall_s: float
    stage: ParkStage = ParkStage.PARKED
    trouble: str = ""
    """Why it could not be woken, the last time."""
    owner: tuple[str, str, str] = ("process", "", "")
    """The kind, the id and the name of its owner."""
    holders: tuple[Process, ...] = ()
    """Those of its processes that held the GPUs."""

    @property
    def memory_bytes(self) -> int:
        """Return how much GPU memory it held in all."""
        return sum(size for _, size in self.gpus)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs that it held."""
        return tuple(uuid for uuid, _ in self.gpus)

    @property
    def subject(self) -> str:
        """Return its name in the journal and in messages."""
        return f"{self.user}'s {self.name}"

    @property
    def where(self) -> str:
        """Return where its memory is now: `20.1 GiB in host memory`."""
        return f"{bytes_for_people(self.memory_bytes)} in host memory"

    @property
    def how_to_wake(self) -> str:
        """Return the command that wakes it."""
        return f"fallow wake pid:{self.first.pid}"

    @property
    def in_words(self) -> str:
        """Return one line about it: whose it is, where its memory is, how to wake it."""
        match self.stage:
            case ParkStage.PARKING:
                return f"{self.subject} is being parked"
            case ParkStage.WAKING:
                return f"{self.subject} is being woken"
            case ParkStage.PARKED:
                trouble = f" (not woken: {self.trouble})" if self.trouble else ""
                return f"parked: {self.subject}: {self.where}; {self.how_to_wake}{trouble}"

    @property
    def as_job(self) -> Job:
        """Return it as a job, to compare it with the jobs that a person means."""
        kind, identity, name = self.owner
        owner = Owner(OwnerKind(kind), identity, name) if name else Owner(OwnerKind(kind), identity)
        gpus = tuple(GpuKey("", uuid) for uuid in self.uuids)
        return Job(self.first, self.user, dict.fromkeys(self.processes, ""), gpus, frozenset(), owner=owner)

    @property
    def keys(self) -> list[str]:
        """Return the keys under which the journal keeps events about it."""
        return self.as_job.keys
