"""Compare what was read with what was read before."""

from collections.abc import Callable
from typing import Generic, TypeVar

from fallow.core.unknown import Unknown
from fallow.engine.conditions.rate import Found

T = TypeVar("T")


class Since(Generic[T]):
    """The condition that something has changed since the last look."""

    def __init__(self, what: str, changed: Callable[[T, T], Found]) -> None:
        """`changed` gets what there was and what there is."""
        self._changed = changed
        self._before: tuple[T, float] | None = None
        self._found: Found = Unknown(f"{what} was looked at only once", asked=False)

    def __call__(self, now: tuple[T, float]) -> Found:
        """Return what follows from this look, with the time when it began; Unknown at the first one."""
        before = self._before
        if before is None or now[1] > before[1]:
            self._before = now
            if before is not None:
                self._found = self._changed(before[0], now[0])
        return self._found
