"""What a load is asked to do, and what it counts. Each GPU has one process with one load.

One thread calls `begin`, `step` and `tally` of a load; `free` is called from another, even during `begin`, and then
`begin` and further steps raise MemoryFreed, or do nothing.
"""

from enum import StrEnum

from fallow.core.value import value

SIMULATED_SCALE = 1024
"""On a simulated GPU, one byte is allocated for so many that were asked for."""


class Load(StrEnum):
    """What the GPU is made to do."""

    MEMORY = "memory"
    WARM = "warm"
    MATMUL = "matmul"


@value
class Ask:
    """What one process is asked to do. Memory is a share of what is free, or so many bytes."""

    load: Load
    verify: bool
    memory_share: float | None = None
    memory_bytes: int | None = None
    chunk_bytes: int = 2 * 2**30
    """The size of one allocation. 122 GiB of an H200 are freed in 84 ms with this size, in 101 ms with 512 MiB, in
    204 ms with 64 MiB."""

    def wanted(self, free_bytes: int) -> int:
        """Return how much memory that is."""
        return self.memory_bytes if self.memory_bytes is not None else int(free_bytes * (self.memory_share or 0.0))


@value
class Tally:
    """What was done so far."""

    wanted_bytes: int = 0
    held_bytes: int = 0
    chunks: int = 0
    """The number of allocations."""
    flop: float = 0.0
    moved_bytes: float = 0.0
    """Read from and written to the GPU's memory."""
    wrong_words: int = 0
    checked_bytes: float = 0.0
    """Memory that was read back, and results that were computed again, for --verify."""


class MemoryFreed(Exception):
    """The memory was freed while it was being allocated or worked on."""
