"""What a load is asked to do, and what it counts. One card, one process, one load."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from fallow.core.value import value

SIMULATED_SCALE = 1024
"""A simulated card holds one of so many bytes that were asked for."""


class Load(StrEnum):
    """What the card is made to do."""

    MEMORY = "memory"
    WARM = "warm"
    MATMUL = "matmul"


@value
class Ask:
    """What one process shall do to its card. Memory is a share of what is free, or so many bytes."""

    load: Load
    verify: bool
    memory_share: float | None = None
    memory_bytes: int | None = None
    chunk_bytes: int = 2 * 2**30
    """It is taken in pieces of this size: 122 GiB of an H200 are freed in 84 ms then; in 101 ms in pieces of 512 MiB,
    in 204 ms in pieces of 64 MiB."""

    def wanted(self, free_bytes: int) -> int:
        """How much memory that is."""
        return self.memory_bytes if self.memory_bytes is not None else int(free_bytes * (self.memory_share or 0.0))


@value
class Tally:
    """What was done so far."""

    wanted_bytes: int = 0
    held_bytes: int = 0
    chunks: int = 0
    """The pieces that it is held in."""
    flop: float = 0.0
    moved_bytes: float = 0.0
    """Read from and written to the card's memory."""
    wrong_words: int = 0
    checked_bytes: float = 0.0
    """Memory that was read back, and results that were computed again, for --verify."""


class LetGo(Exception):
    """All was given back while more was being taken."""


class Work(Protocol):
    """A load on its way: one thread begins and steps; `let_go` comes from another, even while that one begins."""

    def begin(self, about_to_take: Callable[[int], None]) -> None:
        """Say how much memory that will be, take it, and make ready; LetGo if somebody has let go meanwhile."""

    def step(self) -> None:
        """Work for some milliseconds, or rest."""

    def let_go(self) -> None:
        """Give all memory back, as fast as can be, and let further steps do nothing."""

    def tally(self) -> Tally:
        """What was done so far; asked by the thread that steps, or once it has ended."""
