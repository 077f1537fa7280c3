"""Local days: where one ends and the next begins, in a time zone that is given."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo

_SECOND_MS = 1000


def day_of(at_ms: int, zone: tzinfo) -> date:
    """The local day of a moment."""
    return datetime.fromtimestamp(at_ms / _SECOND_MS, UTC).astimezone(zone).date()


def day_begins_ms(day: date, zone: tzinfo) -> int:
    """When the local day begins. A day on which the clocks change has 23 or 25 hours."""
    return round(datetime.combine(day, time(), zone).timestamp() * _SECOND_MS)


def day_edges_ms(since_ms: int, until_ms: int, zone: tzinfo) -> list[int]:
    """The span, cut at each local midnight inside it: its beginning, the midnights, its end."""
    edges = [since_ms]
    day = day_of(since_ms, zone) + timedelta(days=1)
    while (midnight_ms := day_begins_ms(day, zone)) < until_ms:
        if midnight_ms > edges[-1]:
            edges.append(midnight_ms)
        day += timedelta(days=1)
    return [*edges, until_ms]
