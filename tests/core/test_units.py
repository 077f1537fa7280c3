"""What people type is understood, or answered with what they could have meant."""

import pytest

from fallow.core import units
from fallow.core.errors import WrongUsage


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("7d", 604800),
        ("2w", 1209600),
        ("0", 0),
    ],
)
def test_a_duration_means_its_seconds(text: str, seconds: float) -> None:
    assert units.duration_s(text) == seconds
    if text != "90":
        assert units.span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "-5", "1h30", "٣", "1e3", "h", "9" * 400])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match="1h30m"):
        units.duration_s(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("20GiB", 20 * 2**30),
        ("20G", 20 * 2**30),
        ("512MB", 512_000_000),
        ("1.5T", 3 * 2**39),
        ("7B", 7),
        ("0", 0),
        ("1 kib", 1024),
    ],
)
def test_a_size_means_its_bytes(text: str, count: int) -> None:
    assert units.size_bytes(text) == count


@pytest.mark.parametrize("text", ["40", "0.5", " 7 "])
def test_a_size_without_a_unit_is_refused_with_what_to_write(text: str) -> None:
    word = text.strip()
    with pytest.raises(WrongUsage, match=f"{word!r} has no unit; write {word}GiB, {word}MiB or {word}B"):
        units.size_bytes(text)


@pytest.mark.parametrize("text", ["30", "1.5"])
def test_a_span_without_a_unit_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(WrongUsage, match=f"{text!r} has no unit; write {text}s, {text}m, {text}h or {text}d"):
        units.span_s(text)
    assert units.duration_s(text) == float(text), "where a command waits or looks, seconds are meant, as for sleep(1)"


@pytest.mark.parametrize("text", ["", "big", "3X", "-1G", "1GG", "GiB", "9" * 400])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match="20GiB"):
        units.size_bytes(text)


def test_per_cent_is_a_ratio_inside() -> None:
    assert units.ratio("5") == units.ratio("5%") == 0.05


@pytest.mark.parametrize("text", ["101", "-1", "half", ""])
def test_what_is_no_per_cent_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="per cent"):
        units.ratio(text)


@pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5", "²", "9" * 5000])
def test_a_count_is_at_least_one(text: str) -> None:
    with pytest.raises(WrongUsage):
        units.count(text)


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "5s"), (90, "1m30s"), (3600, "1h"), (5400, "1h30m"), (100000, "1d3h")]
)
def test_durations_are_told_in_the_form_in_which_they_are_typed(seconds: float, words: str) -> None:
    assert units.duration_for_people(seconds) == words


def test_a_command_of_many_lines_is_told_in_one() -> None:
    assert units.shortened("python -c '\nimport time\n'") == "python -c ' import time '"
    assert len(units.shortened("x" * 500)) == 60


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("22:00-06:00", 1320, 360), ("8:30 - 17:00", 510, 1020), ("18:00-24:00", 1080, 1440), ("00:00-00:01", 0, 1)],
)
def test_hours_mean_minutes_of_the_day(text: str, first: int, last: int) -> None:
    assert units.hours(text) == (first, last)


@pytest.mark.parametrize(
    "text",
    ["", "22-6", "24:00-06:00", "22:00", "22:60-23:00", "1:00-24:01", "06:00-06:00", "00:00-24:00", "٢٢:00-06:00"],
)
def test_what_are_no_hours_or_all_of_them_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match="20:00-07:00"):
        units.hours(text)
