"""What an examination of the installation found of one part."""

from enum import StrEnum

from fallow.core.value import value


class Health(StrEnum):
    """How a part is."""

    OK = "ok"
    LACKING = "lacking"
    """Something that fallow can do does not work here; the rest does."""
    BROKEN = "broken"
    """What is there does not work, or must not be trusted."""


@value
class CheckFinding:
    """A part, how it is, what that means, and what to do about it."""

    part: str
    health: Health
    means: str
    remedy: str = ""


def ok(part: str, means: str) -> CheckFinding:
    """It works."""
    return CheckFinding(part, Health.OK, means)


def lacking(part: str, means: str, remedy: str = "") -> CheckFinding:
    """Return a finding that a part does not work here."""
    return CheckFinding(part, Health.LACKING, means, remedy)


def broken(part: str, means: str, remedy: str = "") -> CheckFinding:
    """It must be put right."""
    return CheckFinding(part, Health.BROKEN, means, remedy)
