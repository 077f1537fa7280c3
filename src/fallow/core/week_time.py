"""A time of the week, such as Monday at eight: when it was last, in a time zone."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from fallow.core.errors import WrongUsage
from fallow.core.value import value

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORDS = r"([a-z]{3,9})\s+([01]?\d|2[0-3]):([0-5]\d)"
_LONGEST_WORD = 20


@value
class WeeklyTime:
    """A weekday (0 is Monday) and a minute of that day."""

    weekday: int
    minute: int

    def last_s(self, now_s: float, zone: tzinfo) -> float:
        """Return when it was last, at the latest now. A time that the clocks skip is as much later as they skip."""
        today = datetime.fromtimestamp(now_s, UTC).astimezone(zone).replace(tzinfo=None)
        day = today.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
            days=(today.weekday() - self.weekday) % 7
        )
        found = self._at_s(day, zone)
        return found if found <= now_s else self._at_s(day - timedelta(days=7), zone)

    def before_s(self, due_s: float, zone: tzinfo) -> float:
        """Return when it was the week before that."""
        return self.last_s(due_s - 1.0, zone)

    def _at_s(self, day: datetime, zone: tzinfo) -> float:
        return (day + timedelta(minutes=self.minute)).replace(tzinfo=zone).timestamp()


def weekly_time(text: str) -> WeeklyTime:
    """Return the weekday and time of `monday 08:00` or `mon 8:00`."""
    match = re.fullmatch(_WORDS, text.strip().lower()[: _LONGEST_WORD + 1], re.ASCII)
    days = [number for number, name in enumerate(WEEKDAYS) if match and match[1] in (name, name[:3])]
    if match is None or not days:
        raise WrongUsage(f"{text[:_LONGEST_WORD]!r} is not a time of the week", 'write it as "monday 08:00"')
    return WeeklyTime(days[0], int(match[2]) * 60 + int(match[3]))
