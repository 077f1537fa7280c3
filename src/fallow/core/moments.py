"""Read moments as people type them: a day, a day and a time, or how long ago."""

import re
from datetime import datetime, tzinfo

from fallow.core.errors import WrongUsage
from fallow.core.units import span_s
from fallow.core.value import value

_LONGEST_WORD = 25
_DAY = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?"
_LIKE_A_DAY = r"\d+[-./]\d+[-./].*|\d{4}-\d+.*"
_REMEDY = "write 7d, 12h, 2026-11-01 or 2026-11-01T09:30"


@value
class Moment:
    """A moment that somebody typed; when it is depends on the time zone, or on now."""

    text: str
    ago_s: float | None = None
    """How long before now."""
    local: datetime | None = None
    """A local time, without its zone."""

    def wall_s(self, now_s: float, zone: tzinfo) -> float:
        """Return the seconds since the epoch."""
        if self.local is None:
            return now_s - (self.ago_s or 0.0)
        return self.local.replace(tzinfo=zone).timestamp()


def moment(text: str) -> Moment:
    """Return the moment of `7d` (so long ago), `2026-11-01` (when that day begins) or `2026-11-01T09:30`."""
    word = text.strip()
    shown = word[:_LONGEST_WORD]
    if re.fullmatch(_DAY, word, re.ASCII):
        try:
            return Moment(shown, local=datetime.fromisoformat(word))
        except ValueError:
            raise WrongUsage(f"{shown!r} is not in the calendar", _REMEDY) from None
    if re.fullmatch(_LIKE_A_DAY, word, re.ASCII):
        raise WrongUsage(f"{shown!r} is not a date", _REMEDY)
    if word[:1].isdigit():
        return Moment(shown, ago_s=span_s(word))
    raise WrongUsage(f"{shown!r} is not a duration or a date", _REMEDY)
