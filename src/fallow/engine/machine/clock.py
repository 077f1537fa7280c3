"""The system clock, and local time as the C library has it. No other file reads the time."""

import time
from datetime import UTC, datetime, timedelta, tzinfo


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


class LocalZone(tzinfo):
    """The local time zone: TZ in any of its forms, else /etc/localtime; summer time included."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """Return how far local time is ahead of UTC."""
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, when: datetime | None) -> timedelta | None:  # noqa: ARG002  as tzinfo has it
        """Return None: summer time is part of the offset."""
        return None

    def tzname(self, when: datetime | None) -> str | None:
        """Return its usual name, such as CET."""
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, when: datetime) -> datetime:
        """Return the local time of a moment in UTC."""
        return when.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)
