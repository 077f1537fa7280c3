"""Reasons: a kind and its facts, and one sentence for each kind."""

import string

import pytest

from fallow.core import reasons
from fallow.core.reasons import Reason, ReasonKind


@pytest.mark.parametrize("kind", ReasonKind)
def test_every_kind_has_a_sentence_that_is_made_of_its_facts(kind: ReasonKind) -> None:
    names = [name for _, name, _, _ in string.Formatter().parse(reasons._SENTENCES[kind]) if name]
    facts = {name: 90.0 if name.endswith("_s") else f"<{name}>" for name in names}
    sentence = str(Reason.of(kind, **facts))
    assert sentence
    for name in names:
        assert ("1m30s" if name.endswith("_s") else f"<{name}>") in sentence


def test_a_fact_that_a_sentence_needs_cannot_be_left_out() -> None:
    with pytest.raises(KeyError):
        str(Reason(ReasonKind.IDLE))


def test_facts_that_look_like_a_template_are_taken_as_they_are() -> None:
    assert str(Reason.of(ReasonKind.PROTECTED_USER, pid=1, user="{pid.__class__}")).startswith(
        "pid 1 is {pid.__class__}"
    )
