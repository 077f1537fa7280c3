"""Keep the parts of a loop apart: one that fails is reported, and the others go on.

While the system has no descriptors, memory or processes left, only readings are missed. What could not be read is
unknown, and no job is judged by it: the tick ends there, and its time is not witnessed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.errors import SHORTAGES, FallowError

_OVER_AFTER = 10  # turns without an error: while something is short, some turns succeed and some do not
_SHORTAGE = "shortage"


class Walls:
    """Reports once what fails, and once that it no longer does."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._left: dict[str, int] = {}
        """How many turns without an error each part that has failed still needs."""

    @contextmanager
    def around(self, part: str, otherwise: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Survive any error of a part, and do `otherwise` then; raise what comes from a shortage."""
        try:
            yield
        except Exception as error:
            if _shortage(error) is not None:
                raise
            why = str(error) if isinstance(error, FallowError) else f"{type(error).__name__}: {error}"
            self._failed(part, f"{part} failed: {why}; all else goes on")
            otherwise()
            return
        self._succeeded(part, f"{part}: no failure any more")

    @contextmanager
    def shortage_survived(self) -> Iterator[None]:
        """Survive an error in this context that comes from a shortage, and raise any other."""
        try:
            yield
        except (OSError, MemoryError) as error:
            why = _shortage(error)
            if why is None:
                raise
            self._failed(_SHORTAGE, f"looking and acting wait, because the system gives no more: {why}")
            return
        self._succeeded(_SHORTAGE, "looking and acting go on")

    def _failed(self, part: str, sentence: str) -> None:
        if part not in self._left:
            self._say(sentence)
        self._left[part] = _OVER_AFTER

    def _succeeded(self, part: str, sentence: str) -> None:
        if part in self._left:
            self._left[part] -= 1
            if self._left[part] == 0:
                del self._left[part]
                self._say(sentence)


def _shortage(error: Exception) -> str | None:
    """Return what the system is short of; None if the error is another one."""
    if isinstance(error, MemoryError):
        return "no memory"
    return error.strerror if isinstance(error, OSError) and error.errno in SHORTAGES else None
