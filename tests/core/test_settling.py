"""Idleness begins when it has lasted, and counts from its beginning (F11)."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity, Finding
from fallow.core.reasons import Reason
from fallow.core.settling import SETTLING_S, Settling, settle

LONGEST_GAP_S = 3.0
WHY = Reason("free")
RAW = (Activity.FREE, Activity.FILLED, Activity.BUSY, Activity.IDLE, Activity.STUCK, Activity.UNKNOWN)
# Stretches of one raw activity, some whole ticks long, and the seconds from tick to tick: one is a gap.
stretches = st.lists(
    st.tuples(st.sampled_from(RAW), st.integers(1, 30), st.sampled_from((0.5, 1.0, 9.0))), max_size=8
)


def lived(raw: Iterable[Activity], every_s: float = 1.0) -> list[tuple[Settling, Activity]]:
    """What is told at each tick."""
    told: list[tuple[Settling, Activity]] = []
    now: Settling | None = None
    for tick, activity in enumerate(raw):
        now, finding = settle(now, Finding(activity, WHY), 100.0 + tick * every_s, LONGEST_GAP_S)
        told.append((now, finding.activity))
    return told


def words(raw: Iterable[Activity]) -> list[Activity]:
    return [activity for _, activity in lived(raw)]


B, F, N, U = Activity.BUSY, Activity.IDLE, Activity.FREE, Activity.UNKNOWN


def test_a_job_that_works_every_third_second_does_not_flicker() -> None:
    """F11"""
    assert set(words([B, F, F] * 40)) == {B}


def test_what_stops_working_is_idle_after_the_settling_time_and_for_all_of_it() -> None:
    """F11"""
    told = lived([B] * 5 + [F] * 30)
    first = next(number for number, (_, activity) in enumerate(told) if activity is F)
    assert first == 5 + SETTLING_S - 1
    assert told[first][0].for_s == SETTLING_S, "it counts from its beginning"
    assert told[-1][0].for_s == 30.0


def test_busy_goes_on_counting_through_pauses() -> None:
    """F11"""
    assert lived([B, F, F, B, F, F, B])[-1][0].for_s == 6.0


def test_what_is_quiet_at_the_first_look_is_idle_at_once() -> None:
    assert words([F, F]) == [F, F]
    assert words([U, F]) == [U, F]


def test_an_unknown_look_neither_ends_idleness_that_has_settled_nor_shortens_it() -> None:
    told = lived([B] + [F] * 20 + [U] * 2 + [F])
    assert told[-1][1] is F
    assert told[-1][0].for_s == 21.0


def test_an_unknown_look_while_it_settles_begins_the_settling_anew() -> None:
    told = words([B] + [F] * 8 + [U] + [F] * 8)
    assert F not in told


def test_a_gap_in_the_looking_counts_nothing() -> None:
    before = Settling(Activity.IDLE, 10.0, 5.0, 5.0)
    assert settle(before, Finding(Activity.IDLE, WHY), 3610.0, LONGEST_GAP_S)[0].for_s == 5.0
    settling = Settling(Activity.BUSY, 10.0, 50.0, 9.0, idle=False, settling=True)
    assert settle(settling, Finding(Activity.IDLE, WHY), 3610.0, LONGEST_GAP_S)[0].quiet_s == 0.0


@given(stretches)
def test_idleness_is_never_told_before_it_has_lasted_once_something_was_seen(
    history: list[tuple[Activity, int, float]],
) -> None:
    raw = [activity for activity, ticks, _ in history for _ in range(ticks)]
    told = lived(raw)
    for number, (now, activity) in enumerate(told):
        assert now.for_s <= number
        seen_before = set(raw[:number]) & {B, N, Activity.FILLED, Activity.STUCK}
        if activity is F and seen_before:
            assert now.for_s >= SETTLING_S
