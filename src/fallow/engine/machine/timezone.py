"""The time zone of this machine, whatever way it is set."""

from datetime import UTC, datetime, timedelta, tzinfo


class LocalZone(tzinfo):
    """Local time as the C library has it: TZ in any of its forms, else /etc/localtime; summer time included."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """How far local time is ahead of UTC."""
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, when: datetime | None) -> timedelta | None:  # noqa: ARG002  as tzinfo has it
        """Not told apart from the rest."""
        return None

    def tzname(self, when: datetime | None) -> str | None:
        """What people call it, such as CET."""
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, when: datetime) -> datetime:
        """The local time of a moment in UTC."""
        local = datetime.fromtimestamp(when.replace(tzinfo=UTC).timestamp(), UTC).astimezone()
        return local.replace(tzinfo=self)
