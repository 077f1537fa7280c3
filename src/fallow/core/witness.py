"""Witnessed time: seconds that fallow itself saw something last.

A gap in the looking counts zero, so that a suspend, a restart or a driver that hung can only delay what
would follow, never hasten it.
"""

from fallow.core.activity import Activity
from fallow.core.elapsed import witnessed_s
from fallow.core.value import value


@value
class Witness:
    """An activity, and for how long it has been seen without a break."""

    activity: Activity
    seconds: float
    at_s: float


def witness(before: Witness | None, activity: Activity, at_s: float, longest_gap_s: float) -> Witness:
    """What is witnessed after one more look."""
    if before is None or before.activity is not activity:
        return Witness(activity, 0.0, at_s)
    return Witness(activity, before.seconds + witnessed_s(before.at_s, at_s, longest_gap_s), at_s)
