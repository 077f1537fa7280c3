"""The numbers add up: by GPU, user, job and day, whoever held what, whatever the clocks did."""

import itertools
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.days import day_begins_ms, day_edges_ms, day_of
from fallow.core.errors import WrongUsage
from fallow.core.interval import NOBODY, Card, Interval, Party
from fallow.core.money import Prices, prices_from
from fallow.core.unknown import Unknown
from fallow.policies.cost import By, Line, bill, by_days, first_lines, shared_out

HOUR = 3_600_000
CARDS = {
    f"GPU-{number}": Card(f"GPU-{number}", str(number), name) for number, name in enumerate(["H100", "H100", "T4"])
}
ZONES = [UTC, *map(ZoneInfo, ("Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham"))]
FLAT = Prices(2.0)

parties = st.lists(
    st.builds(Party, st.sampled_from(["ada", "bob", "carol"]), st.sampled_from(["x", "y", "z"])),
    min_size=1,
    max_size=6,
    unique=True,
).map(tuple)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Anything from a moment to days, some of it put together from parts; around a change of the clocks in autumn."""
    begin_ms = draw(st.integers(1_792_800_000_000 - 20 * HOUR, 1_792_800_000_000 + 60 * HOUR))
    span_ms = draw(st.integers(1, 5000) | st.integers(1, 80 * HOUR))
    witnessed_ms = draw(st.just(span_ms) | st.integers(0, span_ms))
    activity = draw(st.sampled_from(list(Activity)))
    who = (NOBODY,) if activity in AVAILABLE else draw(parties)
    uuid = draw(st.sampled_from(list(CARDS)))
    return Interval(uuid, begin_ms, begin_ms + span_ms, witnessed_ms, activity, who)


histories = st.lists(intervals(), max_size=30)


def summed(lines: tuple[Line, ...], activity: Activity) -> int:
    return sum(line.ms(activity) for line in lines)


@settings(deadline=None)
@given(histories)
def test_the_hours_of_each_card_sum_to_the_time_observed(history: list[Interval]) -> None:
    for line in bill(history, By.GPU, CARDS, FLAT, UTC).lines:
        observed_ms = sum(one.witnessed_ms for one in history if one.uuid == line.name[0])
        assert sum(line.ms(activity) for activity in Activity) == line.observed_ms == observed_ms


@settings(deadline=None)
@given(histories, st.sampled_from(list(By)), st.sampled_from(ZONES))
def test_however_it_is_told_nothing_is_lost_or_made(history: list[Interval], by: By, zone: tzinfo) -> None:
    told = bill(history, by, CARDS, FLAT, zone)
    for activity in Activity:
        witnessed_ms = sum(one.witnessed_ms for one in history if one.activity is activity)
        assert summed(told.lines, activity) == told.total.ms(activity) == witnessed_ms
    costs = [line.cost for line in told.lines]
    assert sum(cost for cost in costs if not isinstance(cost, Unknown)) == pytest.approx(told.total.cost)
    assert told.total.cost == pytest.approx(2.0 * (told.total.idle_ms + told.total.stuck_ms) / HOUR)


@settings(deadline=None)
@given(histories)
def test_the_jobs_of_a_user_sum_to_the_user(history: list[Interval]) -> None:
    jobs = bill(history, By.JOB, CARDS, FLAT, UTC).lines
    for user in bill(history, By.USER, CARDS, FLAT, UTC).lines:
        own = tuple(line for line in jobs if line.name[1] == user.name[0])
        assert [summed(own, activity) for activity in Activity] == [user.ms(activity) for activity in Activity]


@settings(deadline=None)
@given(histories, st.sampled_from(list(By)), st.integers(1, 5))
def test_a_shortened_bill_still_adds_up(history: list[Interval], by: By, most: int) -> None:
    told = bill(history, by, CARDS, FLAT, UTC)
    lines = first_lines(told, most)
    assert len(lines) <= most or by not in (By.USER, By.JOB)
    for activity in Activity:
        assert summed(lines, activity) == told.total.ms(activity)
    assert sum(line.cost for line in lines if not isinstance(line.cost, Unknown)) == pytest.approx(told.total.cost)


@given(st.integers(0, 10**9), parties)
def test_shares_are_equal_among_users_and_among_the_jobs_of_one(whole_ms: int, who: tuple[Party, ...]) -> None:
    shares = list(shared_out(whole_ms, who))
    assert sum(ms for _, ms in shares) == whole_ms
    users: dict[str, list[int]] = {}
    for party, ms in shares:
        users.setdefault(party.user, []).append(ms)
    totals = [sum(own) for own in users.values()]
    assert max(totals) - min(totals) <= 1
    assert all(max(own) - min(own) <= 1 for own in users.values())


@settings(deadline=None)
@given(intervals(), st.sampled_from(ZONES))
def test_each_day_gets_what_lies_on_it(interval: Interval, zone: tzinfo) -> None:
    days = list(by_days(interval, zone))
    assert sum(ms for _, ms in days) == interval.witnessed_ms
    assert [day for day, _ in days] == sorted({day for day, _ in days})
    if interval.witnessed_ms == interval.end_ms - interval.begin_ms:
        edges = day_edges_ms(interval.begin_ms, interval.end_ms, zone)
        assert [ms for _, ms in days] == [b - a for a, b in itertools.pairwise(edges)]


def test_days_are_those_of_the_time_zone_that_is_given() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    sunday = day_begins_ms(day_of(1_792_900_000_000, berlin), berlin)  # the clocks go back on 2026-10-25
    whole = Interval("GPU-0", sunday, sunday + 25 * HOUR, 25 * HOUR, Activity.BUSY, (Party("ada", "x"),))
    assert list(by_days(whole, berlin)) == [("2026-10-25", 25 * HOUR)]
    assert [ms // HOUR for _, ms in by_days(whole, UTC)] == [2, 23]


@pytest.mark.parametrize("zone", ZONES)
def test_midnights_of_every_zone_lie_on_a_quarter_of_an_hour(zone: tzinfo) -> None:
    edges = day_edges_ms(1_780_000_000_000, 1_812_000_000_000, zone)
    assert len(edges) > 366
    assert all(edge % 900_000 == 0 for edge in edges[1:-1])


def test_a_card_without_a_price_makes_the_cost_unknown_and_not_zero() -> None:
    history = [Interval(uuid, 0, HOUR, HOUR, Activity.IDLE, (Party("ada", "x"),)) for uuid in ("GPU-0", "GPU-2")]
    told = bill(history, By.GPU, CARDS, prices_from(["H100=3/h"]), UTC)
    assert told.lines[0].cost == 3.0
    assert told.lines[1].cost == told.total.cost == Unknown("GPU 2 (T4) has no price")


@pytest.mark.parametrize(
    ("texts", "price", "shown"),
    [
        (["2.5"], 2.5, "2.50"),
        (["2,5/h"], 2.5, "2.50"),
        (["$2.50/h"], 2.5, "$2.50"),
        (["2.50 EUR/h"], 2.5, "2.50 EUR"),
        (["€3 / h"], 3.0, "€3.00"),
        (["1", "h100=4/h"], 4.0, "4.00"),
        (["1", "gpu-0=5", "h100=4/h"], 5.0, "5.00"),
        (["1", "H=3", "H100=4"], 4.0, "4.00"),
        ([], Unknown("GPU 0 (H100) has no price"), None),
    ],
)
def test_prices_are_read_as_people_write_them(texts: list[str], price: float | Unknown, shown: str | None) -> None:
    prices = prices_from(texts)
    assert prices.of(CARDS["GPU-0"]) == price
    assert shown is None or (isinstance(price, float) and prices.in_words(price) == shown)


@pytest.mark.parametrize("text", ["", "cheap", "-1", "1/day", "$1$", "=3", "2.5.5", "٣", "1e9", "H100="])
def test_what_is_no_price_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUsage, match="H100=2"):
        prices_from([text])


def test_two_currencies_cannot_be_added() -> None:
    with pytest.raises(WrongUsage, match="one currency"):
        prices_from(["$2", "T4=1€"])


def test_nobodys_hours_come_after_those_of_everybody() -> None:
    history = [
        Interval("GPU-0", 0, HOUR, HOUR, Activity.BUSY, (Party("ada", "x"),)),
        Interval("GPU-0", HOUR, 4 * HOUR, 3 * HOUR, Activity.FREE, (NOBODY,)),
        Interval("GPU-0", 4 * HOUR, 4 * HOUR + 1, 1, Activity.BUSY, (Party("bob", "y"),)),
    ]
    for by, names in ((By.USER, ["ada", "bob", "-"]), (By.JOB, ["x", "y", "-"])):
        assert [line.name[0] for line in bill(history, by, CARDS, FLAT, UTC).lines] == names


def test_energy_is_shared_out_like_time_and_stays_unknown_where_nothing_was_metered() -> None:
    who = (Party("ada", "x"), Party("ada", "y"), Party("bob", "z"))
    history = [
        Interval("GPU-0", 0, HOUR, HOUR, Activity.BUSY, who, 1_000_001, HOUR),
        Interval("GPU-2", 0, HOUR, HOUR, Activity.IDLE, (Party("carol", "x"),)),
    ]
    for by in By:
        made = bill(history, by, CARDS, Prices(), UTC)
        assert sum(line.energy_mj for line in made.lines) == made.total.energy_mj == 1_000_001
        assert sum(line.metered_ms for line in made.lines) == made.total.metered_ms == HOUR
        assert made.total.energy_is_partial
    users = {line.name[0]: line for line in bill(history, By.USER, CARDS, Prices(), UTC).lines}
    assert (users["ada"].energy_mj, users["bob"].energy_mj) == (500_001, 500_000)
    assert isinstance(users["carol"].energy_j, Unknown)
    assert not users["bob"].energy_is_partial


def test_a_week_is_the_local_days_from_monday_on() -> None:
    sunday = round(datetime(2026, 11, 15, 23, tzinfo=UTC).timestamp() * 1000)
    history = [Interval("GPU-0", sunday, sunday + 2 * HOUR, 2 * HOUR, Activity.BUSY, (Party("ada", "x"),))]
    weeks = bill(history, By.WEEK, CARDS, Prices(), UTC).lines
    assert [(line.name, line.busy_ms) for line in weeks] == [(("2026-11-09",), HOUR), (("2026-11-16",), HOUR)]
