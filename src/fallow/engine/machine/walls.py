"""Keep the parts of a loop apart: one that fails is reported, and the others go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.errors import FallowError

_OVER_AFTER = 10  # turns without an error: while something is short, some turns succeed and some do not


class Walls:
    """Reports once what fails, and once that it no longer does."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._left: dict[str, int] = {}
        """How many turns without an error each part that has failed still needs."""

    @contextmanager
    def around(self, part: str, otherwise: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Survive the errors of a part, and do `otherwise` then."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            why = str(error) if isinstance(error, FallowError) else f"{type(error).__name__}: {error}"
            if part not in self._left:
                self._say(f"{part} failed: {why}; all else goes on")
            self._left[part] = _OVER_AFTER
            otherwise()
            return
        if part in self._left:
            self._left[part] -= 1
            if self._left[part] == 0:
                del self._left[part]
                self._say(f"{part}: no failure any more")
