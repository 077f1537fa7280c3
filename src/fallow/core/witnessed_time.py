"""Return how much of the time between two readings was witnessed."""


def witnessed_s(before_s: float | None, at_s: float, longest_gap_s: float) -> float:
    """Return the seconds since the last reading; zero for a gap, a first reading and a clock that went back.

    A tick covers the whole time since the one before it, because the readings do. Over a longer gap they do not, and
    it is unknown what happened there.
    """
    if before_s is None:
        return 0.0
    passed_s = at_s - before_s
    return passed_s if 0 <= passed_s <= longest_gap_s else 0.0
