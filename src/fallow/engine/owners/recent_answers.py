"""What servers listed a moment ago, so that a server with many kernels is asked once for all of them."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown

_KEPT_FOR_S = 2.0
T = TypeVar("T")


class RecentAnswers(Generic[T]):
    """Keeps answers. Any thread may call it; the questions about one server are asked by one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[T | Unknown, float]] = {}

    def __call__(self, question: Hashable, ask: Callable[[], T | Unknown]) -> T | Unknown:
        """Return the answer of a moment ago, or ask."""
        began_s = self._clock.monotonic_s()
        kept = self._kept.get(question)
        if kept is not None and began_s < kept[1]:
            return kept[0]
        answer = ask()
        now_s = self._clock.monotonic_s()
        for each, (_, until_s) in list(self._kept.items()):
            if now_s >= until_s:
                self._kept.pop(each, None)
        self._kept[question] = answer, now_s + _KEPT_FOR_S
        return answer
