"""Moments as people type them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fallow.core.errors import WrongUsage
from fallow.core.moments import moment

NOW_S = 1_790_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7d", NOW_S - 7 * 86400),
        ("2026-09-01", datetime(2026, 9, 1, tzinfo=UTC).timestamp()),
        ("2026-09-01T09:30", datetime(2026, 9, 1, 9, 30, tzinfo=UTC).timestamp()),
        (" 2026-09-01 09:30:05 ", datetime(2026, 9, 1, 9, 30, 5, tzinfo=UTC).timestamp()),
    ],
)
def test_a_moment_is_so_long_ago_or_a_local_time(text: str, seconds: float) -> None:
    assert moment(text).wall_s(NOW_S, UTC) == seconds


def test_a_day_begins_earlier_in_a_zone_that_is_ahead() -> None:
    ahead = timezone(timedelta(hours=5, minutes=30))
    assert moment("2026-09-01").wall_s(NOW_S, UTC) - moment("2026-09-01").wall_s(NOW_S, ahead) == 5.5 * 3600


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-13-01", "is not in the calendar"),
        ("2026-11-01T25:00", "is not in the calendar"),
        ("2026-1-1", "is not a date"),
        ("1/2/2026", "is not a date"),
        ("2026-11-01T09:30+02:00", "is not a date"),
        ("", "is not a duration or a date"),
        ("७d", "is not a duration"),
        ("7days", "is not a duration"),
        ("5", "has no unit"),
        ("x" * 10_000, "is not a duration or a date"),
    ],
)
def test_what_is_no_moment_is_answered_in_one_short_sentence(text: str, says: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        moment(text)
    assert says in str(raised.value)
    assert len(str(raised.value)) < 150
