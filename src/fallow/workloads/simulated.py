"""The loads on a simulated card, whose memory is the process's resident memory and whose utilization is its CPU use.

Real memory and real CPU time, but a thousandth of the memory, so that eight simulated cards fit on a small machine.
"""

import hashlib
import mmap
import threading
from collections.abc import Callable

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.workloads.work import (
    SIMULATED_SCALE,
    Ask,
    LetGo,
    Load,
    Tally,
)

_REST_S = 0.1


class SimulatedWork:
    """A load on a card that is not there, by a process that is."""

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
        """Take the memory and touch all of it."""
        about_to_take(self._wanted)
        if self._asked > self._free:  # as on a real card; and what it has not got must not cost the machine any
            missing, whole = bytes_for_people(self._asked - self._free), bytes_for_people(self._asked)
            raise NotEnoughGpus(f"out of memory: {missing} of the {whole} that were asked for are missing")
        for start in range(0, self._wanted, self._chunk_bytes):
            size = min(self._chunk_bytes, self._wanted - start)
            pattern = hashlib.shake_128(start.to_bytes(8, "little")).digest(4096) * (size // 4096 + 1)
            with self._lock:
                if self._stop.is_set():
                    raise LetGo
                chunk = mmap.mmap(-1, size)
                chunk[:] = pattern[:size]
                self.chunks.append(chunk)
                self._digests.append(hashlib.sha256(chunk).digest())

    def step(self) -> None:
        """Some milliseconds of work, or rest."""
        computes = self._ask.load is not Load.MEMORY
        if computes or self._ask.verify:
            self._work()
        if self._ask.load is Load.WARM or not (computes or self._ask.verify):
            self._stop.wait(_REST_S)

    def let_go(self) -> None:
        """Give the memory back."""
        self._stop.set()
        with self._lock:
            while self.chunks:
                self.chunks.pop().close()

    def tally(self) -> Tally:
        """What was done so far; a simulated card has no rate worth telling."""
        held = sum(len(chunk) for chunk in self.chunks)
        return Tally(
            wanted_bytes=self._wanted,
            held_bytes=held,
            chunks=len(self.chunks),
            wrong_words=self._wrong,
            checked_bytes=self._checked,
        )

    def _work(self) -> None:
        """Compute over the next chunk, without keeping other threads from running; and check it, if that is asked."""
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
