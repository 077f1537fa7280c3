"""The arrows at the head of each policy are those that its code takes."""

import pytest

from tests.house.arrows import POLICIES, Arrow, Row, drawn, taken


@pytest.mark.parametrize("policy", POLICIES)
def test_the_head_of_a_policy_draws_every_arrow_that_its_code_takes_and_no_other(policy: str) -> None:
    assert drawn(policy) == taken(policy)


def test_alternatives_are_arrows_of_their_own_and_what_is_done_together_is_one() -> None:
    assert Row("A", "when", "B", "Ask or Kill").arrows() == {
        Arrow("A", "B", frozenset({"Ask"})),
        Arrow("A", "B", frozenset({"Kill"})),
    }
    assert Row("A", "when", "B", "Announce and Ask").arrows() == {Arrow("A", "B", frozenset({"Announce", "Ask"}))}
    assert Row("A", "when", "B", "").arrows() == {Arrow("A", "B", frozenset())}
