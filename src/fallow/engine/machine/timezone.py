"""The time zone of this machine, in whatever way it is set."""

from datetime import UTC, datetime, timedelta, tzinfo

_EPOCH = datetime.fromtimestamp(0, UTC)


class LocalZone(tzinfo):
    """Local time as the C library has it: TZ in any of its forms, else /etc/localtime; summer time included.

    The C library takes a TZ that is a whole day from UTC, and Python none such: then it is UTC, as for a TZ that is
    no zone at all.
    """

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """Return how far local time is ahead of UTC."""
        return None if when is None else _local(when.replace(tzinfo=None)).utcoffset()

    def dst(self, when: datetime | None) -> timedelta | None:  # noqa: ARG002  as tzinfo has it
        """Return None: summer time is part of the offset."""
        return None

    def tzname(self, when: datetime | None) -> str | None:
        """Return its usual name, such as CET."""
        return None if when is None else _local(when.replace(tzinfo=None)).tzname()

    def fromutc(self, when: datetime) -> datetime:
        """Return the local time of a moment in UTC."""
        local = _local(datetime.fromtimestamp(when.replace(tzinfo=UTC).timestamp(), UTC))
        return local.replace(tzinfo=self)


def _local(when: datetime) -> datetime:
    """Return a time in the zone of the C library; one without a zone is local already."""
    try:
        return when.astimezone()
    except ValueError:
        if _has_a_zone():
            raise  # no calendar reaches that far
        return when.replace(tzinfo=UTC)


def _has_a_zone() -> bool:
    try:
        _EPOCH.astimezone()
    except ValueError:
        return False
    return True
