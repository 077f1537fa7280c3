"""What may be done with work that yields, a closed set of deeds, each with its because; and what there is to tell."""

from enum import StrEnum

from fallow.core.value import value


class Yield(StrEnum):
    """How a filler gives a GPU back."""

    TERM = "term"
    KILL = "kill"
    SUSPEND = "suspend"


class Presence(StrEnum):
    """What there is of a filler."""

    ABSENT = "absent"
    RUNNING = "running"
    SUSPENDED = "suspended"


class News(StrEnum):
    """What there is to tell of a place for a filler, by the words that `fallow fill` says it with."""

    FILLING = "filling it: "
    LEFT_ALONE = "left alone: "
    RESUMING = "resuming the filler: "
    GIVING_BACK = "giving it back: "
    GIVEN_BACK = "given back after "
    ENDED = "the filler "
    NOTE = ""


@value
class Start:
    """Let it in."""

    because: str


@value
class Resume:
    """Let it go on where it was suspended."""

    because: str


@value
class Ask:
    """Ask it to leave; it has its grace."""

    because: str


@value
class Suspend:
    """Take it off the GPU with all that it knows; kill it if that takes longer than so."""

    because: str
    within_s: float


@value
class Kill:
    """Kill it."""

    because: str


FillAction = Start | Resume | Ask | Suspend | Kill
