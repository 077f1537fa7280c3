"""Outcome: what came of a deed."""

from fallow.core.value import value


@value
class Outcome:
    """Whether it was done, and in words."""

    ok: bool
    words: str
