"""The loads on a simulated GPU, whose memory is the process's resident memory and whose utilization is its CPU use.

Memory and CPU time are real, but the memory is a thousandth, so that eight simulated GPUs fit on a small machine.
Nothing is verified.
"""

import hashlib
import mmap
import threading
from collections.abc import Callable

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.workloads.work import SIMULATED_SCALE, Ask, Load, MemoryFreed, Tally

_REST_S = 0.1
_WORK = bytes(2**20)


class SimulatedWork:
    """A load on a simulated GPU, by a real process."""

    def __init__(self, ask: Ask, free_bytes: int) -> None:
        self._ask = ask
        self._asked = ask.wanted(free_bytes)
        self._free = free_bytes
        self._wanted = self._asked // SIMULATED_SCALE
        self._chunk_bytes = max(1, ask.chunk_bytes // SIMULATED_SCALE)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._chunks: list[mmap.mmap] = []

    def begin(self, about_to_take: Callable[[int], None]) -> None:
        """Allocate the memory and write to all of it."""
        about_to_take(self._wanted)
        if self._asked > self._free:  # as on a real GPU, and without using the machine's memory
            missing, whole = bytes_for_people(self._asked - self._free), bytes_for_people(self._asked)
            raise NotEnoughGpus(f"out of memory: {missing} of the {whole} that were asked for are missing")
        for start in range(0, self._wanted, self._chunk_bytes):
            size = min(self._chunk_bytes, self._wanted - start)
            with self._lock:
                if self._stop.is_set():
                    raise MemoryFreed
                self._chunks.append(mmap.mmap(-1, size))
                self._chunks[-1].write(bytes(size))

    def step(self) -> None:
        """Work for some milliseconds, or sleep."""
        if self._ask.load is not Load.MEMORY:
            hashlib.sha256(_WORK)
        if self._ask.load is not Load.MATMUL:
            self._stop.wait(_REST_S)

    def free(self) -> None:
        """Free the memory."""
        self._stop.set()
        with self._lock:
            while self._chunks:
                self._chunks.pop().close()

    def tally(self) -> Tally:
        """Return what was done so far; the rate of a simulated GPU means nothing."""
        memory = sum(len(chunk) for chunk in self._chunks)
        return Tally(wanted_bytes=self._wanted, held_bytes=memory, chunks=len(self._chunks))
