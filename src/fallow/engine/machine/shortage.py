"""Go on while the system has no descriptors, memory or processes left: only readings are missed.

What could not be read is unknown, and no job is judged by it: the tick ends there, and its time is not witnessed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.errors import SHORTAGES

_OVER_AFTER = 10  # turns without an error: while something is short, some turns succeed and some do not


class Shortage:
    """Reports once that something is short, and once that it no longer is."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._trouble = 0

    @contextmanager
    def survived(self) -> Iterator[None]:
        """Survive an error in this context that comes from a shortage, and raise any other."""
        try:
            yield
        except (OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno not in SHORTAGES:
                raise
            if not self._trouble:
                why = error.strerror if isinstance(error, OSError) else "no memory"
                self._say(f"looking and acting wait, because the system gives no more: {why}")
            self._trouble = _OVER_AFTER
            return
        self._trouble = max(0, self._trouble - 1)
        if self._trouble == 1:
            self._trouble = 0
            self._say("looking and acting go on")
