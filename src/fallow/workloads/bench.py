"""Memory of a GPU, and kernels that use it: all of it may be freed at any moment, from any thread, while they run.

Each kernel takes some milliseconds at most, and no more than two wait at once, so freeing never waits longer.
"""

import threading
from ctypes import c_uint32, c_uint64
from typing import Any

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.core.value import value
from fallow.workloads.cuda import Argument, Device
from fallow.workloads.products import BLOCKS_PER_MULTIPROCESSOR, THREADS, Product
from fallow.workloads.work import MemoryFreed

_GRAIN = 2 * 2**20  # the driver's own
_PAUSE_S = 0.0002
"""Between two chunks that are freed: a newcomer that makes its context then waits for neither."""
_STRIDING_THREADS = 256
_STRIDING_BLOCKS = 8  # for each multiprocessor


@value
class Chunk:
    """A piece of the device's memory."""

    address: int
    size: int
    reserved: bool = False
    """It cannot be used, and `address` is only a handle."""

    @property
    def quads(self) -> int:
        """Return how many 16-byte quads it has."""
        return self.size // 16


class DeviceMemory:
    """All memory that we have allocated. A kernel that uses it is sent under the lock, unless it is `freed`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.lock = threading.Lock()
        self.chunks: list[Chunk] = []
        self.freed = threading.Event()

    @property
    def size(self) -> int:
        """Return how much that is."""
        return sum(chunk.size for chunk in self.chunks)

    def keep(self, size: int) -> Chunk:
        """Allocate a piece that is not freed with the rest, but when the process ends."""
        address = self._device.take(size)
        if address is None:
            raise NotEnoughGpus("out of memory: it is full to the brim")
        self._device.clear(address, size)
        return Chunk(address, size)

    def take(self, size: int) -> Chunk:
        """Allocate one piece of that size."""
        chunk = self._try(size)
        if chunk is None:
            raise NotEnoughGpus(f"out of memory: {bytes_for_people(size)} cannot be had in one piece")
        return chunk

    def take_in_chunks(self, wanted: int, chunk_bytes: int, *, touched: bool) -> list[Chunk]:
        """Allocate so much memory in chunks of that size, or smaller ones if none is left; `touched`: to write to."""
        reserved = not touched and self._device.can_reserve
        taken: list[Chunk] = []
        size, left = chunk_bytes, max(1 if wanted > 0 else 0, wanted // _GRAIN) * _GRAIN
        while left > 0:
            size = min(size, left)
            chunk = self._try(size, reserved)
            if chunk is not None:
                taken.append(chunk)
                left -= size
            elif size > _GRAIN:
                size = max(_GRAIN, size // 2 // _GRAIN * _GRAIN)
            else:
                missing, whole = bytes_for_people(left), bytes_for_people(wanted)
                raise NotEnoughGpus(f"out of memory: {missing} of the {whole} that were asked for are missing")
        return taken

    def free(self) -> None:
        """Free all of it, from any thread, with pauses in which the driver serves a newcomer."""
        self.freed.set()
        pause = threading.Event()
        self._device.use()
        with self.lock:
            while self.chunks:
                chunk = self.chunks.pop()
                if chunk.reserved:
                    self._device.release(chunk.address)
                else:
                    self._device.free(chunk.address)
                pause.wait(_PAUSE_S)

    def _try(self, size: int, reserved: bool = False) -> Chunk | None:
        with self.lock:
            if self.freed.is_set():
                raise MemoryFreed
            address = self._device.reserve(size) if reserved else self._device.take(size)
            if address is None:
                return None
            self.chunks.append(Chunk(address, size, reserved))
            return self.chunks[-1]


class Bench:
    """Sends kernels until the memory is freed; afterwards it raises MemoryFreed."""

    def __init__(self, device: Device, memory: DeviceMemory, product: Product) -> None:
        self.device = device
        self.memory = memory
        self.product = product
        self.blocks = device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        names = ("fallow_fill", "fallow_check", "fallow_compare", "fallow_multiply")
        self._fill, self._check, self._compare, self._multiply = device.kernels(product.source, *names)
        self._marks = device.event(), device.event()
        # Not freed with the rest, because it is read once more after that.
        self._wrong = memory.keep(8).address

    def fill(self, chunk: Chunk, seed: int) -> None:
        """Write the pattern of that seed."""
        self._stride(self._fill, c_uint64(chunk.address), c_uint32(chunk.quads), c_uint32(seed))

    def check(self, chunk: Chunk, seed: int) -> None:
        """Read the pattern back and count the wrong words."""
        where = c_uint64(chunk.address), c_uint32(chunk.quads)
        self._stride(self._check, *where, c_uint32(seed), c_uint64(self._wrong))

    def compare(self, one: Chunk, other: Chunk) -> None:
        """Count the words that differ."""
        where = c_uint64(one.address), c_uint64(other.address)
        self._stride(self._compare, *where, c_uint32(one.quads), c_uint64(self._wrong))

    def multiply(self, operands: Chunk, result: Chunk, steps: int) -> None:
        """Compute the result again."""
        where = c_uint64(operands.address), c_uint64(result.address)
        tiles = c_uint32(operands.size // self.product.tile_bytes)
        self._send(self._multiply, self.blocks, THREADS, *where, tiles, c_uint32(steps))

    def pace(self) -> None:
        """Wait for what was sent before the last call, so that no more than two kernels wait."""
        self.device.wait_for(self._marks[1])
        self.device.mark(self._marks[1])

    def time_ms(self, operands: Chunk, result: Chunk, steps: int) -> float:
        """Return how long one multiplication takes."""
        self.device.mark(self._marks[0])
        self.multiply(operands, result, steps)
        self.device.mark(self._marks[1])
        self.device.wait_for(self._marks[1])
        return self.device.between_ms(*self._marks)

    def wrong_words(self) -> int:
        """Return how many wrong words all checks have found."""
        return self.device.number(self._wrong)

    def _stride(self, kernel: Any, *arguments: Argument) -> None:  # noqa: ANN401  a CUfunction
        self._send(kernel, self.device.multiprocessors * _STRIDING_BLOCKS, _STRIDING_THREADS, *arguments)

    def _send(self, kernel: Any, blocks: int, threads: int, *arguments: Argument) -> None:  # noqa: ANN401  a CUfunction
        with self.memory.lock:
            if self.memory.freed.is_set():
                raise MemoryFreed
            self.device.launch(kernel, blocks, threads, *arguments)
