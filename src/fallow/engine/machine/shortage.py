"""When the system has no descriptor, no memory or no process left for us: a look is missed, and nothing else.

What could not be read is not known, and nobody is judged by it: the tick ends there, and its time is not witnessed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.errors import SHORTAGES

_WELL_AFTER = 10  # so many turns: where there is little of something, some turns go well and some do not


class Shortage:
    """Says once that something is short, and once that it no longer is."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._trouble = 0

    @contextmanager
    def survived(self) -> Iterator[None]:
        """What is done in here may fail for want of something, and for nothing else."""
        try:
            yield
        except (OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno not in SHORTAGES:
                raise
            if not self._trouble:
                why = error.strerror if isinstance(error, OSError) else "no memory"
                self._tell(f"looking and acting wait, because the system gives no more: {why}")
            self._trouble = _WELL_AFTER
            return
        self._trouble = max(0, self._trouble - 1)
        if self._trouble == 1:
            self._trouble = 0
            self._tell("looking and acting go on")
