"""A time of the week, in any zone and across changes of the clocks."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fallow.core.errors import WrongUsage
from fallow.core.week_time import WeeklyTime, weekly_time

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY_8 = WeeklyTime(0, 8 * 60)


def at(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("now", "last"),
    [
        ("2026-11-16T08:00", "2026-11-16T08:00"),
        ("2026-11-16T07:59", "2026-11-09T08:00"),
        ("2026-11-22T23:59", "2026-11-16T08:00"),
        ("2026-10-26T07:00", "2026-10-19T08:00"),
        ("2026-03-30T08:30", "2026-03-30T08:00"),
    ],
)
def test_it_was_last_at_that_time_of_the_clock_on_the_wall(now: str, last: str) -> None:
    assert MONDAY_8.last_s(at(now), BERLIN) == at(last)


def test_the_week_before_has_an_hour_more_when_the_clocks_go_back() -> None:
    due_s = at("2026-10-26T08:00")
    assert due_s - MONDAY_8.before_s(due_s, BERLIN) == 7 * 86400 + 3600


def test_it_is_read_as_people_write_it() -> None:
    assert weekly_time("monday 08:00") == weekly_time(" Mon  8:00 ") == MONDAY_8
    assert weekly_time("sunday 23:59") == WeeklyTime(6, 23 * 60 + 59)
    assert weekly_time("sunday 23:59").last_s(0.0, UTC) < 0


@pytest.mark.parametrize(
    "text", ["", "monday", "08:00", "mond 08:00", "monday 24:00", "monday 8:0", "monday 08:00 x" * 99]
)
def test_what_is_no_time_of_the_week_is_answered_in_a_sentence(text: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        weekly_time(text)
    assert "is not a time of the week" in str(raised.value)
    assert len(str(raised.value)) < 120
