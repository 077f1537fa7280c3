"""The result of one check of the installation."""

from enum import StrEnum

from fallow.core.value import value


class Health(StrEnum):
    """Whether a part works."""

    OK = "ok"
    LACKING = "lacking"
    """Something that fallow can do does not work here; the rest works."""
    BROKEN = "broken"
    """A part does not work, or cannot be trusted."""


@value
class CheckFinding:
    """A part, whether it works, what that means, and what to do about it."""

    part: str
    health: Health
    means: str
    remedy: str = ""


def ok(part: str, means: str) -> CheckFinding:
    """Return a finding that a part works."""
    return CheckFinding(part, Health.OK, means)


def lacking(part: str, means: str, remedy: str = "") -> CheckFinding:
    """Return a finding that a part does not work here, while the rest works."""
    return CheckFinding(part, Health.LACKING, means, remedy)


def broken(part: str, means: str, remedy: str = "") -> CheckFinding:
    """Return a finding that a part must be repaired."""
    return CheckFinding(part, Health.BROKEN, means, remedy)
