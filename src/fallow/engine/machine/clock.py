"""The system clock. No other file reads the time."""

import time


class SystemClock:
    """The clocks of this machine."""

    monotonic_s = staticmethod(time.monotonic)
    """Returns seconds that never go back and do not jump when the system time is set; asked 200 times a tick."""

    wall_s = staticmethod(time.time)
    """Returns seconds since the epoch, for people to read."""

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""
        time.sleep(seconds)


def minute_of_day(wall_s: float) -> int:
    """Return the minutes since midnight in this machine's time zone."""
    local = time.localtime(wall_s)
    return local.tm_hour * 60 + local.tm_min
