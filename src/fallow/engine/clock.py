"""The only file that asks the time."""

import time


class SystemClock:
    """The machine's own clocks."""

    def monotonic_s(self) -> float:
        """Seconds that never go back and do not jump when somebody sets the clock."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since the epoch, for people to read."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def minute_of_day(wall_s: float) -> int:
    """Minutes since midnight, as the clocks of this machine's time zone show them."""
    local = time.localtime(wall_s)
    return local.tm_hour * 60 + local.tm_min
