"""What servers listed a moment ago, so that a server with many kernels is asked once for all of them.

A user chooses what their server answers, and every answer has to be parsed: one that takes long is kept for longer,
but not so long that a kernel would count as idle which has begun to work.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown

_KEPT_FOR_S = 2.0
_KEPT_FOR_TIMES = 10
_KEPT_FOR_AT_MOST_S = 5.0
_MOST = 256
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
        self._drop_old(now_s)
        lasts_s = max(_KEPT_FOR_S, min(_KEPT_FOR_AT_MOST_S, _KEPT_FOR_TIMES * (now_s - began_s)))
        self._kept[question] = answer, now_s + lasts_s
        return answer

    def _drop_old(self, now_s: float) -> None:
        for question, (_, until_s) in list(self._kept.items()):
            if now_s >= until_s or len(self._kept) >= _MOST:
                self._kept.pop(question, None)
