"""Hours of a day, also past midnight."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.errors import WrongUsage
from fallow.core.hours import Hours, hours

MINUTES = st.integers(0, 24 * 60 - 1)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("22:00-06:00", 1320, 360), ("8:30 - 17:00", 510, 1020), ("18:00-24:00", 1080, 1440), ("00:00-00:01", 0, 1)],
)
def test_hours_are_read(text: str, start: int, end: int) -> None:
    assert hours(text) == Hours(start, end)


@pytest.mark.parametrize(
    "text", ["", "22-6", "24:00-06:00", "22:00", "22:60-23:00", "24:01-1:00", "08:00-24:30", "٢٢:00-06:00"]
)
def test_what_are_no_hours_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match="22:00-06:00"):
        hours(text)


@pytest.mark.parametrize("text", ["06:00-06:00", "00:00-24:00"])
def test_none_or_all_of_the_day_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="whole day"):
        hours(text)


@given(MINUTES, MINUTES, MINUTES)
@settings(deadline=None)
def test_a_minute_is_in_the_hours_or_in_the_rest_of_the_day(start: int, end: int, minute: int) -> None:
    if start != end:
        assert Hours(start, end).has(minute) != Hours(end, start).has(minute)
        assert Hours(start, end).has(start)
        assert not Hours(start, end).has(end)


@given(MINUTES, MINUTES)
@settings(deadline=None)
def test_hours_are_written_as_they_are_read(start: int, end: int) -> None:
    if start != end:
        assert hours(str(Hours(start, end))) == Hours(start, end)
