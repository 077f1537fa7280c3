"""The hours of a day in which something may happen: `22:00-06:00`."""

import re

from fallow.core.errors import WrongUsage
from fallow.core.value import value

_MINUTES_OF_A_DAY = 24 * 60
_HOURS = r"([01]?\d|2[0-4]):([0-5]\d)\s*-\s*([01]?\d|2[0-4]):([0-5]\d)"


@value
class Hours:
    """From one minute of the day up to another; past midnight where the end is before the start."""

    start_min: int
    end_min: int

    def __str__(self) -> str:
        return f"{_clock(self.start_min)}-{_clock(self.end_min)}"

    def has(self, minute_of_day: int) -> bool:
        """Whether that minute is among them; the last one is not."""
        if self.start_min < self.end_min:
            return self.start_min <= minute_of_day < self.end_min
        return minute_of_day >= self.start_min or minute_of_day < self.end_min


def hours(text: str) -> Hours:
    """The hours of `22:00-06:00`, by the clock on the wall of the machine."""
    match = re.fullmatch(_HOURS, text.strip(), re.ASCII)
    start_min, end_min = (int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])) if match else (0, 0)
    if match is None or start_min >= _MINUTES_OF_A_DAY or end_min > _MINUTES_OF_A_DAY:
        raise WrongUsage(f"{text[:18]!r} are no hours; write them as 22:00-06:00")
    if start_min == end_min % _MINUTES_OF_A_DAY:
        raise WrongUsage(f"{text[:18]!r} is no time or all of it; leave it out for the whole day")
    return Hours(start_min, end_min)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
