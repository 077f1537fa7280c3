"""Sends kernels to a GPU whose memory may be freed at any moment while they run.

Each kernel takes some milliseconds at most, and no more than two wait at once, so freeing never waits longer.
"""

from ctypes import c_uint32, c_uint64
from typing import Any

from fallow.workloads.cuda import Argument, Device
from fallow.workloads.memory import Chunk, DeviceMemory
from fallow.workloads.products import THREADS, Product

_STRIDING_THREADS = 256
_STRIDING_BLOCKS = 8  # for each multiprocessor


class Bench:
    """Sends kernels until the memory is freed; afterwards it does nothing."""

    def __init__(self, device: Device, memory: DeviceMemory, product: Product) -> None:
        self.device = device
        self.memory = memory
        self.product = product
        self.blocks = device.multiprocessors * product.blocks_per_multiprocessor
        names = ("fallow_fill", "fallow_check", "fallow_compare", "fallow_multiply")
        self._fill, self._check, self._compare, self._multiply = device.kernels(product.source, *names)
        self._marks = [device.event(), device.event()]
        self._sent = 0
        # Not freed with the rest, because it is read once more after that.
        self._wrong = memory.keep(8)

    def fill(self, chunk: Chunk, seed: int) -> bool:
        """Write the pattern of that seed; return whether the memory was still there."""
        return self._stride(self._fill, c_uint64(chunk.address), c_uint32(chunk.quads), c_uint32(seed))

    def check(self, chunk: Chunk, seed: int) -> bool:
        """Read the pattern back and count the wrong words."""
        return self._stride(
            self._check, c_uint64(chunk.address), c_uint32(chunk.quads), c_uint32(seed), c_uint64(self._wrong.address)
        )

    def compare(self, one: Chunk, other: Chunk) -> bool:
        """Count the words that differ."""
        return self._stride(
            self._compare,
            c_uint64(one.address),
            c_uint64(other.address),
            c_uint32(one.quads),
            c_uint64(self._wrong.address),
        )

    def multiply(self, operands: Chunk, result: Chunk, steps: int) -> bool:
        """Compute the result again."""
        tiles = operands.size // self.product.tile_bytes
        return self._send(
            self._multiply,
            self.blocks,
            THREADS,
            c_uint64(operands.address),
            c_uint64(result.address),
            c_uint32(tiles),
            c_uint32(steps),
        )

    def pace(self) -> None:
        """Record an event, and wait for the one before, so that no more than two kernels wait."""
        self.device.mark(self._marks[self._sent % 2])
        self._sent += 1
        if self._sent > 1:
            self.device.wait_for(self._marks[self._sent % 2])

    def time_ms(self, operands: Chunk, result: Chunk, steps: int) -> float:
        """Return how long one multiplication takes."""
        self.device.mark(self._marks[0])
        self.multiply(operands, result, steps)
        self.device.mark(self._marks[1])
        self.device.wait_for(self._marks[1])
        return self.device.between_ms(*self._marks)

    def wrong_words(self) -> int:
        """Return how many wrong words all checks have found."""
        return self.device.number(self._wrong.address)

    def _stride(self, kernel: Any, *arguments: Argument) -> bool:  # noqa: ANN401  a CUfunction
        return self._send(kernel, self.device.multiprocessors * _STRIDING_BLOCKS, _STRIDING_THREADS, *arguments)

    def _send(self, kernel: Any, blocks: int, threads: int, *arguments: Argument) -> bool:  # noqa: ANN401  a CUfunction
        with self.memory.lock:
            if not self.memory.freed:
                self.device.launch(kernel, blocks, threads, *arguments)
            return not self.memory.freed
