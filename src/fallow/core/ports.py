"""What the hall needs of eyes and clocks; the wings provide it and tests bring their own."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from fallow.core.gpu import Gpu, Snapshot


class Depth(IntEnum):
    """How closely to look: at what choosing a GPU needs, at what judging its load needs, or at everything."""

    GLANCE = 1
    WATCH = 2
    LOOK = 3


class Clock(Protocol):
    """The one who is asked for the time."""

    def monotonic_s(self) -> float:
        """Seconds that never go back, for differences."""

    def wall_s(self) -> float:
        """Seconds since the epoch, for people."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


Links = Mapping[frozenset[str], int]
"""How well two GPUs are connected, by their UUIDs: more is nearer. A pair that is missing is not known."""


class GpuReader(Protocol):
    """Whatever sees GPUs."""

    def look(self, depth: Depth) -> Snapshot:
        """All GPUs now. What cannot be seen is Unknown."""

    def links(self, gpus: Sequence[Gpu]) -> Links:
        """How the given GPUs are connected to each other."""

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """The same, with each holder's user, command, container and job."""

    @property
    def is_free(self) -> bool:
        """Whether nobody is inside the driver: a call that hangs is."""

    def close(self) -> None:
        """Let go of the driver."""
