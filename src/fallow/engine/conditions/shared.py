"""What several jobs ask for is read once for all of them."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from fallow.core.unknown import Unknown
from fallow.engine.conditions.beside import Beside, Lanes

_FORGOTTEN_AFTER_S = 60.0
T = TypeVar("T")


class Shared:
    """Things that are read beside the loop, by what they are. Called by one thread."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._things: dict[Hashable, tuple[Beside[Any], float]] = {}

    def latest(self, what: Hashable, lane: str, read: Callable[[], T | Unknown]) -> tuple[T, float] | Unknown:
        """Return what was read last, and when that began; it is read again soon. Never waits."""
        now_s = self._lanes.clock.monotonic_s()
        if what not in self._things:
            self._things = {each: kept for each, kept in self._things.items() if now_s - kept[1] < _FORGOTTEN_AFTER_S}
        thing: Beside[T] = self._things[what][0] if what in self._things else Beside(self._lanes, lane, read)
        self._things[what] = thing, now_s
        return thing.latest()
