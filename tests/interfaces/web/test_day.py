"""The last day of a GPU, as a strip."""

from fallow.core.activity import Activity
from fallow.interfaces.web.day import STEP_MS, paths

SINCE_MS = 1_700_000_100_000


def at(step: float) -> int:
    return SINCE_MS + round(step * STEP_MS)


def test_each_step_has_what_took_most_of_it_and_a_gap_stays_empty() -> None:
    drawn = paths(
        [
            (at(0), at(10), Activity.BUSY),
            (at(10), at(10.3), Activity.IDLE),
            (at(10.3), at(11), Activity.BUSY),
            (at(20), at(21), Activity.FREE),
        ],
        SINCE_MS,
    )
    assert drawn == ((Activity.FREE, "M20 0h1v1h-1z"), (Activity.BUSY, "M0 0h11v1h-11z"))


def test_what_began_before_the_day_is_cut_at_its_edge() -> None:
    assert paths([(at(-5), at(2), Activity.IDLE)], SINCE_MS) == ((Activity.IDLE, "M0 0h2v1h-2z"),)
