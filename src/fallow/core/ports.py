"""The protocols of clocks and readers that the engine uses; tests bring their own."""

from collections.abc import Mapping, Sequence
from enum import Enum

from fallow.core.annotations import Protocol
from fallow.core.gpu import Gpu, Snapshot


class Depth(Enum):
    """How much of each GPU to read."""

    HOLDERS = "holders"
    """Identity, memory, processes and temperature: what choosing a GPU needs."""
    ALL = "all"
    """Everything: what judging a job needs."""


class Clock(Protocol):
    """A clock."""

    def monotonic_s(self) -> float:
        """Return seconds that never go back, for differences."""

    def wall_s(self) -> float:
        """Return seconds since the epoch, for people."""

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""


Links = Mapping[frozenset[str], int]
"""How well two GPUs are connected, by their UUIDs: more is nearer. A missing pair is unknown."""


class GpuReader(Protocol):
    """Reads GPUs. A reader for another vendor implements this."""

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now. What cannot be read is Unknown."""

    def links(self, gpus: Sequence[Gpu]) -> Links:
        """Return how the given GPUs are connected to each other."""

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with each holder's user, command, container and job."""

    def close(self) -> None:
        """Close the driver."""
