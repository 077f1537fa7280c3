"""A verdict: what was found of something, and the readings that say so."""

from fallow.core.value import value

Evidence = tuple[tuple[str, str], ...]
"""Readings as pairs of a name and a text, in the order a person would want them."""


@value
class Verdict:
    """What was found of a subject, the sentence that says why, and the readings behind it."""

    subject: str
    finding: str
    because: str
    evidence: Evidence = ()
