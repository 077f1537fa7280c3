"""Where the marks of a chart's axes are, and what they say: for values, and for times of day in a zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from math import ceil, floor, isfinite, log10

from fallow.core.value import value

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86_400
_STEPS_S = (
    *(1 * _MINUTE_S, 2 * _MINUTE_S, 5 * _MINUTE_S, 10 * _MINUTE_S, 15 * _MINUTE_S, 30 * _MINUTE_S),
    *(_HOUR_S, 2 * _HOUR_S, 3 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S),
)
_STEPS_DAYS = (1, 2, 7, 14, 28, 56, 91, 182, 364)
_MOST_WALKED = 1000


@value
class Tick:
    """A mark of an axis."""

    at: float
    """On an axis of values the value, on one of time milliseconds since the epoch."""
    text: str


def value_ticks(most: float, number: int = 4) -> tuple[float, ...]:
    """Return round values from 0 to the first that is not below `most`: about `number` steps, one at least.

    What is no length of an axis (zero, less, infinite) gets an axis from 0 to 1.
    """
    if not isfinite(most) or most <= 0:
        return (0.0, 1.0)
    step = _round_step(most / max(1, number))
    steps = max(1, ceil(round(most / step, 9)))
    return tuple(round(step * place, 9) for place in range(steps + 1))


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** floor(log10(least))
    return next((each * power for each in _ROUND if each * power >= least * (1 - 1e-9)), 10 * power)


def value_text(at: float, step: float, unit: str = "") -> str:
    """Return a value of an axis with as many decimals as the step between two marks needs."""
    decimals = 0
    while decimals < 6 and abs(round(step, decimals) - step) > 1e-9 * max(1.0, abs(step)):
        decimals += 1
    return f"{at:,.{decimals}f}{unit}"


def time_ticks(begin_ms: int, end_ms: int, zone: tzinfo, most: int = 8) -> tuple[Tick, ...]:
    """Return at most `most` marks at round times of the zone: `14:30`, and `16 Nov` for the midnight that begins it.

    The day of a change to summer time has an hour less; marks stay at round hours of the clock on the wall.
    """
    span_s = (end_ms - begin_ms) / 1000
    if span_s <= 0 or most < 1:
        return ()
    return tuple(Tick(at_ms, _time_text(at_ms, zone)) for at_ms in _moments(begin_ms, end_ms, zone, span_s, most))


def _moments(begin_ms: int, end_ms: int, zone: tzinfo, span_s: float, most: int) -> list[int]:
    for step_s in _STEPS_S:
        if span_s / step_s <= most:
            found = [at for at in _times_of_day(begin_ms, end_ms, zone, step_s) if begin_ms <= at <= end_ms]
            if len(found) <= most:
                return found
    for step_days in _STEPS_DAYS:
        if span_s / _DAY_S / step_days <= most:
            found = [at for at in _midnights(begin_ms, end_ms, zone, step_days) if begin_ms <= at <= end_ms]
            if len(found) <= most:
                return found
    return []


def _times_of_day(begin_ms: int, end_ms: int, zone: tzinfo, step_s: int) -> Iterator[int]:
    """Yield the moments at which the clock of the zone shows a whole number of steps since midnight."""
    before = 0
    for midnight in _days(begin_ms, end_ms, zone):
        for second in range(0, _DAY_S, step_s):
            at = midnight + timedelta(seconds=second)
            at_ms = _ms_of(at.replace(tzinfo=zone))
            # An hour that the clock leaves out does not exist; one that comes twice is marked once.
            if at_ms > before and _local(at_ms, zone).replace(tzinfo=None) == at:
                before = at_ms
                yield at_ms


def _midnights(begin_ms: int, end_ms: int, zone: tzinfo, step_days: int) -> Iterator[int]:
    for midnight in _days(begin_ms, end_ms, zone):
        if midnight.toordinal() % step_days == (1 if step_days % 7 == 0 else 0):  # weeks begin on Monday
            yield _ms_of(midnight.replace(tzinfo=zone))


def _days(begin_ms: int, end_ms: int, zone: tzinfo) -> Iterator[datetime]:
    """Yield the local midnights around the span, without their zone."""
    first = _local(begin_ms, zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    last = _local(end_ms, zone).replace(tzinfo=None)
    for number in range(_MOST_WALKED):
        day = first + timedelta(days=number)
        if day > last:
            return
        yield day


def _local(at_ms: float, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


def _ms_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _time_text(at_ms: float, zone: tzinfo) -> str:
    at = _local(at_ms, zone)
    return f"{at.day} {at:%b}" if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"
