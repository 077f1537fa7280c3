"""The protocols of clocks and readers that the engine uses; tests bring their own."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from fallow.core.gpu import Gpu, Snapshot


class Depth(IntEnum):
    """How much of each GPU to read. Each value reads what the one before it reads, too."""

    HOLDERS = 1
    """Identity, memory, processes and temperature: what choosing a GPU needs."""
    LOAD = 2
    """Utilization, too: what judging a job needs."""
    EVERYTHING = 3
    """Clocks and limits, too."""
    ENERGY = 4
    """The counter of energy, too, which takes 4 ms a GPU on an H200."""


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

    @property
    def is_free(self) -> bool:
        """Return whether no call is inside the driver, as one that hangs is."""

    def close(self) -> None:
        """Close the driver."""
