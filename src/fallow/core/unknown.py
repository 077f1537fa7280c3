"""Unknown: a reading that could not be taken, and why."""

from fallow.core.annotations import NoReturn, TypeVar
from fallow.core.value import value

T = TypeVar("T")


@value
class Unknown:
    """A missing fact. It is never idle, never false and never zero, so it has no truth value."""

    why: str
    asked: bool = True
    """False if it was not read on purpose: nothing failed."""

    def __bool__(self) -> NoReturn:
        raise TypeError(f"unknown is neither true nor false ({self.why})")

    def __str__(self) -> str:
        return f"unknown: {self.why}"


NOT_ASKED = Unknown("not asked", asked=False)


def known(value: T | Unknown, default: T) -> T:
    """Return the value, or the default that the caller gives for an unknown one."""
    return default if isinstance(value, Unknown) else value
