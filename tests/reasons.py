"""Reasons for tests in which any will do."""

from fallow.core.reasons import Reason


def said(sentence: str) -> Reason:
    """A reason that is this sentence."""
    return Reason("told", sentence=sentence)
