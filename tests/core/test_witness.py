"""Only what was seen counts as time."""

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.witness import Witness, witness

LONGEST_GAP_S = 3.0
ticks = st.lists(st.tuples(st.floats(0.01, 20.0), st.sampled_from(Activity)), min_size=1, max_size=50)


def test_time_adds_up_while_nothing_changes() -> None:
    seen: Witness | None = None
    for at_s in (10.0, 11.0, 12.5):
        seen = witness(seen, Activity.FALLOW, at_s, LONGEST_GAP_S)
    assert seen is not None
    assert seen.seconds == 2.5


def test_another_activity_begins_at_zero() -> None:
    seen = witness(Witness(Activity.BUSY, 99.0, 10.0), Activity.FALLOW, 11.0, LONGEST_GAP_S)
    assert seen == Witness(Activity.FALLOW, 0.0, 11.0)


def test_a_gap_counts_zero() -> None:
    seen = witness(Witness(Activity.FALLOW, 5.0, 10.0), Activity.FALLOW, 3610.0, LONGEST_GAP_S)
    assert seen.seconds == 5.0


@given(ticks)
def test_witnessed_time_never_exceeds_the_time_that_passed(history: list[tuple[float, Activity]]) -> None:
    at_s, seen, began_s = 0.0, None, 0.0
    for passed, activity in history:
        at_s += passed
        if seen is None or seen.activity is not activity:
            began_s = at_s
        seen = witness(seen, activity, at_s, LONGEST_GAP_S)
        assert 0.0 <= seen.seconds <= at_s - began_s + 1e-6
