"""The loads on a simulated GPU, whose memory is the process's resident memory and whose utilization is its CPU use.

Memory and CPU time are real, but the memory is a thousandth, so that eight simulated GPUs fit on a small machine.
"""

import hashlib
import mmap
import threading
from collections.abc import Callable

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.workloads.work import SIMULATED_SCALE, Ask, Load, MemoryFreed, Tally

_REST_S = 0.1


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
        self.chunks: list[mmap.mmap] = []
        self._digests: list[bytes] = []
        self._turn = 0
        self._wrong = 0
        self._checked = 0.0

    def begin(self, about_to_take: Callable[[int], None]) -> None:
        """Allocate the memory and write to all of it."""
        about_to_take(self._wanted)
        if self._asked > self._free:  # as on a real GPU, and without using the machine's memory
            missing, whole = bytes_for_people(self._asked - self._free), bytes_for_people(self._asked)
            raise NotEnoughGpus(f"out of memory: {missing} of the {whole} that were asked for are missing")
        for start in range(0, self._wanted, self._chunk_bytes):
            size = min(self._chunk_bytes, self._wanted - start)
            pattern = hashlib.shake_128(start.to_bytes(8, "little")).digest(4096) * (size // 4096 + 1)
            with self._lock:
                if self._stop.is_set():
                    raise MemoryFreed
                chunk = mmap.mmap(-1, size)
                chunk[:] = pattern[:size]
                self.chunks.append(chunk)
                self._digests.append(hashlib.sha256(chunk).digest())

    def step(self) -> None:
        """Work for some milliseconds, or sleep."""
        computes = self._ask.load is not Load.MEMORY
        if computes or self._ask.verify:
            self._work()
        if self._ask.load is Load.WARM or not (computes or self._ask.verify):
            self._stop.wait(_REST_S)

    def free(self) -> None:
        """Free the memory."""
        self._stop.set()
        with self._lock:
            while self.chunks:
                self.chunks.pop().close()

    def tally(self) -> Tally:
        """Return what was done so far; the rate of a simulated GPU means nothing."""
        memory = sum(len(chunk) for chunk in self.chunks)
        return Tally(
            wanted_bytes=self._wanted,
            held_bytes=memory,
            chunks=len(self.chunks),
            wrong_words=self._wrong,
            checked_bytes=self._checked,
        )

    def _work(self) -> None:
        """Compute over the next chunk, without blocking other threads, and verify it if that is asked."""
        with self._lock:
            if not self.chunks:
                return
            number = self._turn % len(self.chunks)
            chunk = self.chunks[number]
            digest = hashlib.sha256(chunk).digest()
            if self._ask.verify:
                self._checked += len(chunk)
                self._wrong += digest != self._digests[number]
            self._turn += 1
