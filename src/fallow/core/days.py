"""Local days in a given time zone: where one ends and the next begins."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo

_SECOND_MS = 1000


def day_of(at_ms: int, zone: tzinfo) -> date:
    """Return the local day of a moment."""
    return datetime.fromtimestamp(at_ms / _SECOND_MS, UTC).astimezone(zone).date()


def day_begins_ms(day: date, zone: tzinfo) -> int:
    """Return when the local day begins. A day on which the clocks change has 23 or 25 hours."""
    return round(datetime.combine(day, time(), zone).timestamp() * _SECOND_MS)


def day_edges_ms(since_ms: int, until_ms: int, zone: tzinfo) -> list[int]:
    """Return the beginning of the span, each local midnight inside it, and its end."""
    edges = [since_ms]
    day = day_of(since_ms, zone) + timedelta(days=1)
    while (midnight_ms := day_begins_ms(day, zone)) < until_ms:
        if midnight_ms > edges[-1]:
            edges.append(midnight_ms)
        day += timedelta(days=1)
    return [*edges, until_ms]
