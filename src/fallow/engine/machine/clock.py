"""The only file that asks the time."""

import time

from fallow.core.errors import FallowError
from fallow.core.ports import Clock

_LAST_S = 9_223_372_036.0  # in the year 2262


class SystemClock:
    """The machine's own clocks."""

    def monotonic_s(self) -> float:
        """Seconds that never go back and do not jump when somebody sets the clock."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since the epoch, for people to read."""
        try:
            return time.time()
        except OverflowError:
            return _LAST_S  # Python counts nanoseconds in 64 bits: a clock that is set beyond them stands still

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def demand_countable(clock: Clock) -> None:
    """What runs for long needs parts of Python that do not even load while the clock is beyond its reach."""
    if clock.wall_s() >= _LAST_S:
        raise FallowError("the clock of this machine is set beyond the year 2262, where Python cannot count; set it")


def minute_of_day(wall_s: float) -> int:
    """Minutes since midnight, as the clocks of this machine's time zone show them."""
    local = time.localtime(wall_s)
    return local.tm_hour * 60 + local.tm_min
