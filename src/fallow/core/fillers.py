"""What can be done with a filler: a closed set of actions, each with its reason; and whether it is on its GPUs."""

from enum import StrEnum

from fallow.core.reasons import Reason, WithReason
from fallow.core.value import value

IS_FILLER = "FALLOW_FILLER"
"""The variable that is set for fillers: `fallow burn` then ends a moment after it has freed its memory."""

LARGEST_ORDER = 65536
"""The most bytes that a keeper reads of an order."""


class Yield(StrEnum):
    """How a filler gives a GPU back."""

    TERM = "term"
    KILL = "kill"
    SUSPEND = "suspend"


class Presence(StrEnum):
    """Whether a filler is on its GPUs."""

    ABSENT = "absent"
    RUNNING = "running"
    SUSPENDED = "suspended"


class FillVerb(StrEnum):
    """What can be done with a filler."""

    START = "start"
    RESUME = "resume"
    """After a suspension."""
    ASK = "ask"
    """To leave within its grace."""
    SUSPEND = "suspend"
    """With its GPU memory saved; it is killed if that takes too long."""
    KILL = "kill"


@value
class FillAction(WithReason):
    """What is done with a filler, and why."""

    verb: FillVerb
    reason: Reason
