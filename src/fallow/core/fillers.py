"""What can be done with a filler: a closed set of actions, each with its reason; and what is reported of it."""

from enum import StrEnum

from fallow.core.value import value


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


class News(StrEnum):
    """What is reported of a slot, by the beginning of the sentence that `fallow fill` prints."""

    FILLING = "filling it: "
    LEFT_ALONE = "left alone: "
    RESUMING = "resuming the filler: "
    GIVING_BACK = "giving it back: "
    GIVEN_BACK = "given back after "
    ENDED = "the filler "
    NOTE = ""


@value
class _Because:
    because: str


@value
class Start(_Because):
    """Start the filler."""


@value
class Resume(_Because):
    """Resume the filler after a suspension."""


@value
class Ask(_Because):
    """Ask the filler to leave within its grace."""


@value
class Suspend(_Because):
    """Suspend the filler, with its GPU memory saved; kill it if that takes longer than `within_s`."""

    within_s: float


@value
class Kill(_Because):
    """Kill the filler."""


FillAction = Start | Resume | Ask | Suspend | Kill
