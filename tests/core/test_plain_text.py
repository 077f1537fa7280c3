"""Texts of others, made plain for services that read markup."""

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.plain_text import as_plain
from tests.policies.histories import modest


@modest
@given(st.text())
def test_nothing_that_is_defused_means_anything_to_a_program(text: str) -> None:
    """V13"""
    plain = as_plain(text)
    assert plain.isprintable()
    assert not set("@<>[]`*") & set(plain)
    assert "://" not in plain
    assert len(plain) <= 2000
    assert as_plain(plain) == plain
