"""A condition, and the one that something grows faster than it may."""

from collections.abc import Callable

from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown

Found = Reason | Unknown | None
"""A reason against acting, Unknown if it cannot be told, or None."""
Condition = Callable[[], Found]


class Rate:
    """The condition that something grew by more than a limit since the last look."""

    def __init__(
        self,
        what: str,
        read: Callable[[], tuple[float, float] | Unknown],
        above: float,
        reason: Callable[[float], Reason],
    ) -> None:
        """`read` returns how much there was until now, and the time by which its growth is divided."""
        self._what = what
        self._read = read
        self._above = above
        self._reason = reason
        self._before: tuple[float, float] | None = None
        self._found: Found = Unknown(f"the {what} was looked at only once", asked=False)

    def __call__(self) -> Found:
        """Return the reason; Unknown at the first look, which has nothing to compare with."""
        now = self._read()
        if isinstance(now, Unknown):
            return now
        before, self._before = self._before, now
        if before is not None and now[1] > before[1]:
            rate = (now[0] - before[0]) / (now[1] - before[1])
            quiet = None if rate >= 0 else Unknown(f"the {self._what} is counted from the beginning")
            self._found = self._reason(rate) if rate > self._above else quiet
        return self._found
