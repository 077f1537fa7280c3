"""The system clock. No other file reads the time."""

import time

from fallow.core.errors import FallowError
from fallow.core.ports import Clock

_LAST_S = 9_223_372_036.0  # in the year 2262


class SystemClock:
    """The clocks of this machine."""

    monotonic_s = staticmethod(time.monotonic)
    """Returns seconds that never go back and do not jump when the system time is set; asked 200 times a tick."""

    def wall_s(self) -> float:
        """Return seconds since the epoch, for people to read."""
        try:
            return time.time()
        except OverflowError:
            return _LAST_S  # Python counts nanoseconds in 64 bits, and cannot read a later time

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""
        time.sleep(seconds)


def demand_countable(clock: Clock) -> None:
    """Raise FallowError if the system time is beyond what Python can count: parts of Python do not load then."""
    if clock.wall_s() >= _LAST_S:
        raise FallowError("the clock of this machine is set beyond the year 2262, where Python cannot count; set it")


def minute_of_day(wall_s: float) -> int:
    """Return the minutes since midnight in this machine's time zone."""
    local = time.localtime(wall_s)
    return local.tm_hour * 60 + local.tm_min
