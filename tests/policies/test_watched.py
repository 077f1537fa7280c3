"""Gaps and hours of the week, from sums by quarter of an hour."""

from datetime import UTC, datetime, timedelta, timezone

from fallow.core.activity import Activity
from fallow.policies.watched import QUARTER_MS, gaps, hours_of_week

MONDAY_MS = round(datetime(2026, 11, 16, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 4 * QUARTER_MS


def test_what_nobody_watched_is_a_gap_at_the_beginning_between_and_at_the_end() -> None:
    quarters = [(MONDAY_MS + at * QUARTER_MS, Activity.BUSY, 5) for at in (4, 5, 8)]
    assert gaps(quarters, MONDAY_MS, MONDAY_MS + 12 * QUARTER_MS) == [
        (MONDAY_MS, MONDAY_MS + 4 * QUARTER_MS),
        (MONDAY_MS + 6 * QUARTER_MS, MONDAY_MS + 8 * QUARTER_MS),
        (MONDAY_MS + 9 * QUARTER_MS, MONDAY_MS + 12 * QUARTER_MS),
    ]
    assert gaps([], 0, 10) == [(0, 10)]


def test_hours_of_the_week_are_those_of_the_local_clock() -> None:
    quarters = [
        (MONDAY_MS + 9 * HOUR_MS, Activity.IDLE, 60),
        (MONDAY_MS + 9 * HOUR_MS + QUARTER_MS, Activity.BUSY, 20),
        (MONDAY_MS + 9 * HOUR_MS + 7 * 24 * HOUR_MS, Activity.STUCK, 20),
    ]
    (found,) = hours_of_week(quarters, UTC).values()
    assert (found.weekday, found.hour, found.observed_ms, found.unused_ms) == (0, 9, 100, 80)
    assert found.unused_share == 0.8
    half = timezone(timedelta(hours=-9, minutes=-15))
    assert sorted(hours_of_week(quarters, half)) == [(0, 0), (6, 23)]
