"""Memory of a GPU: allocated chunk by chunk, and freed at once from any thread, even while kernels use it."""

import threading

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.core.value import value
from fallow.workloads.cuda import Device
from fallow.workloads.work import MemoryFreed

_GRAIN = 2 * 2**20  # the driver's own


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
        self.freed = False

    def bytes(self) -> int:
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
        """Free all of it, from any thread."""
        self.freed = True
        self._device.use()
        with self.lock:
            while self.chunks:
                chunk = self.chunks.pop()
                if chunk.reserved:
                    self._device.release(chunk.address)
                else:
                    self._device.free(chunk.address)

    def _try(self, size: int, reserved: bool = False) -> Chunk | None:
        with self.lock:
            if self.freed:
                raise MemoryFreed
            address = self._device.reserve(size) if reserved else self._device.take(size)
            if address is None:
                return None
            self.chunks.append(Chunk(address, size, reserved))
            return self.chunks[-1]
