"""The marks of axes: round values, round times of the clock on the wall."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.interfaces.render.axes import time_ticks, value_text, value_ticks

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str) -> int:
    """A moment in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (100, (0, 25, 50, 75, 100)),
        (1, (0, 0.25, 0.5, 0.75, 1)),
        (700, (0, 200, 400, 600, 800)),
        (3, (0, 1, 2, 3)),
        (0.07, (0, 0.02, 0.04, 0.06, 0.08)),
        (0, (0, 1)),
        (float("nan"), (0, 1)),
        (float("inf"), (0, 1)),
    ],
)
def test_values_are_marked_at_round_numbers(most: float, ticks: tuple[float, ...]) -> None:
    assert value_ticks(most) == ticks


@given(st.floats(min_value=1e-3, max_value=1e15), st.integers(1, 10))
def test_an_axis_of_values_always_reaches_the_largest_in_few_equal_steps(most: float, number: int) -> None:
    ticks = value_ticks(most, number)
    assert ticks[0] == 0
    assert ticks[-1] >= most * (1 - 1e-6)
    assert 2 <= len(ticks) <= number + 2


def test_a_value_has_as_many_decimals_as_its_step_needs() -> None:
    assert [value_text(at, 0.25) for at in (0, 0.25, 1)] == ["0.00", "0.25", "1.00"]
    assert value_text(1500, 500, " W") == "1,500 W"
    assert value_text(2.5, 2.5) == "2.5"


def test_an_hour_a_day_a_week_and_a_month_are_marked_as_people_count_them() -> None:
    end = ms("2026-11-16T16:07:00")
    hour = [tick.text for tick in time_ticks(end - HOUR_MS, end, UTC, 6)]
    day = [tick.text for tick in time_ticks(end - DAY_MS, end, UTC, 8)]
    week = [tick.text for tick in time_ticks(end - 7 * DAY_MS, end, UTC, 8)]
    month = [tick.text for tick in time_ticks(end - 30 * DAY_MS, end, UTC, 8)]
    assert hour == ["15:10", "15:20", "15:30", "15:40", "15:50", "16:00"]
    assert day == ["18:00", "21:00", "16 Nov", "03:00", "06:00", "09:00", "12:00", "15:00"]
    assert week == ["10 Nov", "11 Nov", "12 Nov", "13 Nov", "14 Nov", "15 Nov", "16 Nov"]
    assert month == ["19 Oct", "26 Oct", "2 Nov", "9 Nov", "16 Nov"], "weeks begin on Monday"


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 400 * DAY_MS), st.integers(1, 12))
def test_there_are_never_more_marks_than_asked_for_and_all_are_inside(begin: int, span: int, most: int) -> None:
    ticks = time_ticks(begin, begin + span, BERLIN, most)
    assert len(ticks) <= most
    assert all(begin <= tick.at <= begin + span for tick in ticks)
