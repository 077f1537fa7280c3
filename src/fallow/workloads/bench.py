"""A card with our kernels on it, and memory that may be given back at any moment while they run.

Everything that is sent takes some milliseconds at most, and no more than two pieces are on their way at once: who
lets go never waits longer than that.
"""

from ctypes import c_uint32, c_uint64
from typing import Any

from fallow.workloads.cuda import Argument, Card
from fallow.workloads.memory import Chunk, Held
from fallow.workloads.products import THREADS, Product

_STRIDING_THREADS = 256
_STRIDING_BLOCKS = 8  # for each multiprocessor


class Bench:
    """Sends kernels while the memory is held; afterwards does nothing."""

    def __init__(self, card: Card, held: Held, product: Product) -> None:
        self.card = card
        self.held = held
        self.product = product
        self.blocks = card.multiprocessors * product.blocks_per_multiprocessor
        names = ("fallow_fill", "fallow_check", "fallow_compare", "fallow_multiply")
        self._fill, self._check, self._compare, self._multiply = card.kernels(product.source, *names)
        self._marks = [card.event(), card.event()]
        self._sent = 0
        # Not among what is held: it is read once more when the rest has been given back.
        self._wrong = held.keep(8)

    def fill(self, chunk: Chunk, seed: int) -> bool:
        """Write the pattern of that seed; whether it could still be sent."""
        return self._stride(self._fill, c_uint64(chunk.place), c_uint32(chunk.quads), c_uint32(seed))

    def check(self, chunk: Chunk, seed: int) -> bool:
        """Read it back and count what is wrong."""
        return self._stride(
            self._check, c_uint64(chunk.place), c_uint32(chunk.quads), c_uint32(seed), c_uint64(self._wrong.place)
        )

    def compare(self, one: Chunk, other: Chunk) -> bool:
        """Count the words that differ."""
        return self._stride(
            self._compare,
            c_uint64(one.place),
            c_uint64(other.place),
            c_uint32(one.quads),
            c_uint64(self._wrong.place),
        )

    def multiply(self, operands: Chunk, result: Chunk, steps: int) -> bool:
        """Compute the result anew."""
        tiles = operands.size // self.product.tile_bytes
        return self._send(
            self._multiply,
            self.blocks,
            THREADS,
            c_uint64(operands.place),
            c_uint64(result.place),
            c_uint32(tiles),
            c_uint32(steps),
        )

    def pace(self) -> None:
        """Mark what was sent, and wait until the card has come to the mark before."""
        self.card.mark(self._marks[self._sent % 2])
        self._sent += 1
        if self._sent > 1:
            self.card.wait_for(self._marks[self._sent % 2])

    def time_ms(self, operands: Chunk, result: Chunk, steps: int) -> float:
        """How long one multiplication takes."""
        self.card.mark(self._marks[0])
        self.multiply(operands, result, steps)
        self.card.mark(self._marks[1])
        self.card.wait_for(self._marks[1])
        return self.card.between_ms(*self._marks)

    def wrong_words(self) -> int:
        """How many wrong words all checks have found."""
        return self.card.number(self._wrong.place)

    def _stride(self, kernel: Any, *given: Argument) -> bool:  # noqa: ANN401  a CUfunction
        return self._send(kernel, self.card.multiprocessors * _STRIDING_BLOCKS, _STRIDING_THREADS, *given)

    def _send(self, kernel: Any, blocks: int, threads: int, *given: Argument) -> bool:  # noqa: ANN401  a CUfunction
        with self.held.lock:
            if not self.held.gone:
                self.card.launch(kernel, blocks, threads, *given)
            return not self.held.gone
