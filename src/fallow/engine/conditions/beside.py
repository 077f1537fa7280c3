"""Read things beside the loop, again and again while somebody asks for them: servers and files may hang.

What is read in one lane is read one after the other, so what hangs keeps only its own lane waiting.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.engine.machine.background import Background

_AGAIN_AFTER_S = 0.9  # at each tick of a second
_OLD_AFTER_S = 10.0
_GIVEN_UP_AFTER_S = 30.0
_NOT_YET = Unknown("it was not read yet", asked=False)
_NO_THREAD = Unknown("the system has no thread left to read it in")

T = TypeVar("T")


class Lanes:
    """The threads in which things are read. Called by one thread."""

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self.clock = clock
        self._say = say
        self._lanes: dict[str, Background[Callable[[], None]]] = {}

    def give(self, name: str, work: Callable[[], None]) -> bool:
        """Have something done in a lane, and return at once; False if the system has no thread left."""
        if name not in self._lanes:
            self._lanes[name] = Background(name, lambda work: work(), self._say)
        try:
            self._lanes[name].give(work)
        except RuntimeError:
            return False
        return True


class Beside(Generic[T]):
    """One thing that is read beside the loop."""

    def __init__(self, lanes: Lanes, lane: str, read: Callable[[], T | Unknown]) -> None:
        self._lanes = lanes
        self._lane = lane
        self._read = read
        self._answer: tuple[T | Unknown, float] | None = None
        self._given_s: float | None = None
        self._called_s: float | None = None
        self._since_s = 0.0

    def latest(self) -> tuple[T, float] | Unknown:
        """Return what was read last and when that began; it is read again soon. Never waits."""
        now_s, answer = self._lanes.clock.monotonic_s(), self._answer
        if self._called_s is None or now_s - self._called_s >= _OLD_AFTER_S:
            self._since_s, answer = now_s, None  # nobody has asked for a while, so that it was not read
        self._called_s = now_s
        is_due = answer is None or now_s - answer[1] >= _AGAIN_AFTER_S
        waits = self._given_s is not None and now_s - self._given_s < _GIVEN_UP_AFTER_S
        if is_due and not waits:
            self._given_s = now_s
            if not self._lanes.give(self._lane, self._look):
                self._given_s = None
                return _NO_THREAD
        if answer is None:
            late = Unknown(f"it did not answer within {_OLD_AFTER_S:g} s")
            return late if now_s - self._since_s >= _OLD_AFTER_S else _NOT_YET
        found, at_s = answer
        if isinstance(found, Unknown):
            return found
        if now_s - at_s >= _OLD_AFTER_S:
            return Unknown(f"it has not answered for {_OLD_AFTER_S:g} s")
        return found, at_s

    def _look(self) -> None:
        at_s = self._lanes.clock.monotonic_s()
        found: T | Unknown = Unknown("reading it failed")
        try:
            found = self._read()
        finally:
            self._answer = found, at_s
            self._given_s = None
