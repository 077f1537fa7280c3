"""Unknown: there is no such fact now, and why."""

from typing import NoReturn, TypeVar

from fallow.core.value import value

T = TypeVar("T")


@value
class Unknown:
    """A fact that nobody has. It is never idle, never false and never zero, so it has no truth value."""

    why: str
    asked: bool = True
    """False where nobody wanted to know: nothing failed."""

    def __bool__(self) -> NoReturn:
        raise TypeError(f"unknown is neither true nor false ({self.why})")

    def __str__(self) -> str:
        return f"unknown: {self.why}"


NOT_ASKED = Unknown("not asked", asked=False)


def known(value: T | Unknown, default: T) -> T:
    """The value, or the default where the caller has said what not knowing means."""
    return default if isinstance(value, Unknown) else value
