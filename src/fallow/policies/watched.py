"""When GPUs were watched, and what they did at which hour of the week, from sums by quarter of an hour.

A quarter of an hour lies in one hour of the clock of any time zone.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from fallow.core.activity import UNUSED, Activity
from fallow.core.value import value

QUARTER_MS = 900_000
Quarter = tuple[int, Activity, int]
"""When a quarter of an hour begins, an activity, and how long all GPUs together did it."""


@value
class HourOfWeek:
    """What all GPUs did in one hour of the week, over all weeks."""

    weekday: int
    """0 is Monday."""
    hour: int
    ms: tuple[tuple[Activity, int], ...]

    @property
    def observed_ms(self) -> int:
        """Return how long it was watched."""
        return sum(ms for _, ms in self.ms)

    @property
    def unused_ms(self) -> int:
        """Return how long GPUs were idle or stuck in it."""
        return sum(ms for activity, ms in self.ms if activity in UNUSED)

    @property
    def unused_share(self) -> float:
        """Return the part of the time watched in which GPUs were idle or stuck."""
        return self.unused_ms / max(1, self.observed_ms)


def gaps(quarters: Iterable[Quarter], since_ms: int, until_ms: int) -> list[tuple[int, int]]:
    """Return the times in which nobody watched any GPU, to the quarter of an hour."""
    found: list[tuple[int, int]] = []
    watched_until_ms = since_ms
    for begin_ms in sorted({begin_ms for begin_ms, _, _ in quarters}):
        if begin_ms > watched_until_ms:
            found.append((watched_until_ms, begin_ms))
        watched_until_ms = begin_ms + QUARTER_MS
    if until_ms - watched_until_ms > 0:
        found.append((watched_until_ms, until_ms))
    return found


def hours_of_week(quarters: Iterable[Quarter], zone: tzinfo) -> dict[tuple[int, int], HourOfWeek]:
    """Return what was done in each hour of the week that was watched, by weekday and hour."""
    sums: dict[tuple[int, int], dict[Activity, int]] = {}
    for begin_ms, activity, ms in quarters:
        at = datetime.fromtimestamp(begin_ms / 1000, UTC).astimezone(zone)
        spent = sums.setdefault((at.weekday(), at.hour), dict.fromkeys(Activity, 0))
        spent[activity] += ms
    return {
        (weekday, hour): HourOfWeek(weekday, hour, tuple(spent.items()))
        for (weekday, hour), spent in sorted(sums.items())
    }
