"""Memory that is held on a card: taken chunk by chunk, given back at once, whoever is using it then."""

import threading

from fallow.core.errors import NotEnoughGpus
from fallow.core.units import bytes_for_people
from fallow.core.value import value
from fallow.workloads.cuda import Card
from fallow.workloads.work import LetGo

_GRAIN = 2 * 2**20  # the driver's own


@value
class Chunk:
    """A piece of the card's memory."""

    place: int
    size: int
    reserved: bool = False
    """Only held, and `place` is no address."""

    @property
    def quads(self) -> int:
        """How many 16-byte quads it has."""
        return self.size // 16


class Held:
    """All that we hold. Whoever sends kernels that touch it keeps the lock while it sends, and looks at `gone`."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self.lock = threading.Lock()
        self.chunks: list[Chunk] = []
        self.gone = False

    def bytes(self) -> int:
        """How much that is."""
        return sum(chunk.size for chunk in self.chunks)

    def keep(self, size: int) -> Chunk:
        """A piece that is not given back with the rest, but with the card."""
        place = self._card.take(size)
        if place is None:
            raise NotEnoughGpus("out of memory: it is full to the brim")
        self._card.clear(place, size)
        return Chunk(place, size)

    def take(self, size: int) -> Chunk:
        """One piece of that size."""
        chunk = self._try(size)
        if chunk is None:
            raise NotEnoughGpus(f"out of memory: {bytes_for_people(size)} cannot be had in one piece")
        return chunk

    def take_in_chunks(self, wanted: int, chunk_bytes: int, *, touched: bool) -> list[Chunk]:
        """So much memory, in chunks of that size, and smaller ones where none is left; `touched`: to write to."""
        reserved = not touched and self._card.can_reserve
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

    def give_back(self) -> None:
        """All of it, from any thread."""
        self.gone = True
        self._card.use()
        with self.lock:
            while self.chunks:
                chunk = self.chunks.pop()
                if chunk.reserved:
                    self._card.release(chunk.place)
                else:
                    self._card.give(chunk.place)

    def _try(self, size: int, reserved: bool = False) -> Chunk | None:
        with self.lock:
            if self.gone:
                raise LetGo
            place = self._card.reserve(size) if reserved else self._card.take(size)
            if place is None:
                return None
            self.chunks.append(Chunk(place, size, reserved))
            return self.chunks[-1]
