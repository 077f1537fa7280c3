"""Notice jobs of a cluster that were stopped and came back, so that no rule stops the same thing in circles.

A workload that was scaled to zero and is there again soon, or a job that was put back into the queue, was started by
an engine or a person who wants it. It is reported once, and for a day the rules only report it.
"""

from fallow.core.ports import Clock

_COMES_BACK_WITHIN_S = 3600.0
_LEFT_FOR_S = 86_400.0
_MOST = 10_000


class ReturnedClusterJobs:
    """Remembers by their keys which jobs were stopped, and which of them came back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stopped_s: dict[str, float] = {}
        self._returned_s: dict[str, float] = {}

    def stopped(self, key: str) -> None:
        """Remember a job that was stopped and is gone."""
        _put(self._stopped_s, key, self._clock.monotonic_s())

    def has_come_back(self, key: str) -> bool:
        """Return whether this job, which is new in this look, was stopped a while ago."""
        at_s, now_s = self._stopped_s.pop(key, None), self._clock.monotonic_s()
        if at_s is None or now_s - at_s >= _COMES_BACK_WITHIN_S:
            return False
        _put(self._returned_s, key, now_s)
        return True

    def is_left(self, key: str) -> bool:
        """Return whether the rules only report this job, because it came back."""
        at_s = self._returned_s.get(key)
        return at_s is not None and self._clock.monotonic_s() - at_s < _LEFT_FOR_S


def _put(times: dict[str, float], key: str, at_s: float) -> None:
    while len(times) >= _MOST:
        del times[next(iter(times))]
    times[key] = at_s
