"""How much of the time between two looks was witnessed."""


def witnessed_s(before_s: float | None, at_s: float, longest_gap_s: float) -> float:
    """Seconds since the look before; a gap, a first look and a clock that went back count zero.

    A tick speaks for the whole stretch since the one before it, because the readings do. Over a longer gap
    they do not, and nobody knows what happened there.
    """
    if before_s is None:
        return 0.0
    passed_s = at_s - before_s
    return passed_s if 0 <= passed_s <= longest_gap_s else 0.0
