"""Local time, as the C library has it."""

from datetime import UTC, datetime, timedelta, tzinfo


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
