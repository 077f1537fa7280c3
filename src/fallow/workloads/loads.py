"""The loads on a real GPU: hold memory, keep warm, multiply matrices; each with or without verification."""

import threading
from collections.abc import Callable

from fallow.core.value import replace
from fallow.workloads.bench import Bench, Chunk, DeviceMemory
from fallow.workloads.cuda import Device
from fallow.workloads.products import RESULT_WORDS, THREADS, best
from fallow.workloads.work import Ask, Load, MemoryFreed, Tally

_OPERAND_BYTES = 2**30  # far more than the caches hold
_FIRST_STEPS = 16
_LAUNCH_MS = 2.0
_REST_S = 0.1
_PRODUCTS_FOR_A_CHUNK = 50  # multiplications between two checks of a chunk of memory
_SEED = 0x5EED


class CudaWork:
    """A load on the first CUDA device."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._stop = threading.Event()
        self._opening = threading.Lock()
        self._done = Tally()
        self._steps = 0
        self._wanted = 0
        self.memory: DeviceMemory | None = None
        self.bench: Bench | None = None
        self._patterns: Patterns | None = None
        self._products: Products | None = None

    def begin(self, about_to_take: Callable[[int], None]) -> None:
        """Open the device, allocate the memory, write operands and patterns."""
        with self._opening:
            if self._stop.is_set():
                raise MemoryFreed
            device = Device()
            memory = self.memory = DeviceMemory(device)
        wanted = self._wanted = self._ask.wanted(device.free_bytes())
        about_to_take(wanted)
        if self._ask.verify or self._ask.load is not Load.MEMORY:
            self.bench = Bench(device, memory, best(device.capability))
        if self.bench is not None and self._ask.load is not Load.MEMORY:
            self._products = Products(self.bench, min(wanted // 2, self._ask.chunk_bytes), verify=self._ask.verify)
        chunks = memory.take_in_chunks(wanted - memory.size, self._ask.chunk_bytes, touched=self._ask.verify)
        if self.bench is not None and self._ask.verify:
            self._patterns = Patterns(self.bench, chunks)

    def step(self) -> None:
        """Work for some milliseconds; a load that only holds memory or keeps warm then sleeps."""
        self._steps += 1
        if self._products is not None:
            self._done = self._products.go_on(self._done)
        busy = self._ask.load is Load.MATMUL
        if self._patterns is not None and (not busy or self._steps % _PRODUCTS_FOR_A_CHUNK == 0):
            self._done = self._patterns.go_on(self._done)
        if self._ask.load is Load.WARM or (self._products is None and self._patterns is None):
            self._stop.wait(_REST_S)

    def free(self) -> None:
        """Free all memory at once."""
        self._stop.set()
        with self._opening:
            memory = self.memory
        if memory is not None:
            memory.free()

    def tally(self) -> Tally:
        """Return what was done so far."""
        return replace(
            self._done,
            wanted_bytes=self._wanted,
            held_bytes=0 if self.memory is None else self.memory.size,
            chunks=0 if self.memory is None else len(self.memory.chunks),
            wrong_words=0 if self.bench is None else self.bench.wrong_words(),
        )


class Products:
    """Multiplies the same matrices again and again, and compares the result with the first one."""

    def __init__(self, bench: Bench, most_bytes: int, *, verify: bool) -> None:
        self._bench = bench
        memory, tile = bench.memory, bench.product.tile_bytes
        self._operands = memory.take(max(1, min(most_bytes, _OPERAND_BYTES) // tile) * tile)
        result_bytes = bench.blocks * THREADS * RESULT_WORDS * 4
        self.result = memory.take(result_bytes)
        self._first = memory.take(result_bytes) if verify else None
        bench.fill(self._operands, _SEED)
        bench.time_ms(self._operands, self.result, 1)  # the first launch is slow: the driver loads the kernel
        took_ms = bench.time_ms(self._operands, self.result, _FIRST_STEPS)
        self._steps = max(1, round(_FIRST_STEPS * _LAUNCH_MS / max(took_ms, 1e-3)))
        if self._first is not None:
            bench.multiply(self._operands, self._first, self._steps)

    def go_on(self, done: Tally) -> Tally:
        """Multiply once more and compare; return the tally with that added."""
        bench = self._bench
        bench.multiply(self._operands, self.result, self._steps)
        checked = 0
        if self._first is not None:
            bench.compare(self.result, self._first)
            checked = self.result.size
        bench.pace()
        product, work = bench.product, bench.blocks * self._steps
        return Tally(
            flop=done.flop + work * product.flop_per_step,
            moved_bytes=done.moved_bytes + work * product.tile_bytes + self.result.size + 2 * checked,
            checked_bytes=done.checked_bytes + checked,
        )


class Patterns:
    """Reads memory back and writes it again, chunk after chunk, each time with another pattern."""

    def __init__(self, bench: Bench, chunks: list[Chunk]) -> None:
        self._bench = bench
        self._chunks = chunks
        self._next = 0
        for number, chunk in enumerate(chunks):
            bench.fill(chunk, _seed(number))

    def go_on(self, done: Tally) -> Tally:
        """Check and write the next chunk; return the tally with that added."""
        count = len(self._chunks)
        if not count:
            return done
        chunk = self._chunks[self._next % count]
        self._bench.check(chunk, _seed(self._next))
        self._bench.fill(chunk, _seed(self._next + count))
        self._bench.pace()
        self._next += 1
        moved, checked = done.moved_bytes + 2 * chunk.size, done.checked_bytes + chunk.size
        return replace(done, moved_bytes=moved, checked_bytes=checked)


def _seed(number: int) -> int:
    """Return a seed that differs for every chunk and every round."""
    return (_SEED + number * 0x9E3779B9) % 2**32
