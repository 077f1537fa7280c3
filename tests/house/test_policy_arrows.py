"""The arrows at the head of each policy are those that its code takes; docs/contributing/policies.md draws them."""

import runpy
import xml.etree.ElementTree

import pytest

from tests.house.arrows import POLICIES, Arrow, Row, drawn, taken
from tests.places import REPOSITORY


@pytest.mark.parametrize("policy", POLICIES)
def test_the_head_of_a_policy_draws_every_arrow_that_its_code_takes_and_no_other(policy: str) -> None:
    assert drawn(policy) == taken(policy)


def test_the_page_on_policies_is_drawn_from_the_heads() -> None:
    draw = runpy.run_path(str(REPOSITORY / "scripts" / "draw-policies"))
    assert (REPOSITORY / "docs" / "contributing" / "policies.md").read_text() == draw["page"](), (
        "run scripts/draw-policies"
    )
    for policy in POLICIES:
        picture = REPOSITORY / "docs" / "images" / draw["picture_name"](policy)
        assert picture.read_text() == draw["picture"](policy), "run scripts/draw-policies"
        xml.etree.ElementTree.parse(picture)


def test_alternatives_are_arrows_of_their_own_and_what_is_done_together_is_one() -> None:
    assert Row("A", "when", "B", "Ask or Kill").arrows() == {
        Arrow("A", "B", frozenset({"Ask"})),
        Arrow("A", "B", frozenset({"Kill"})),
    }
    assert Row("A", "when", "B", "Announce and Ask").arrows() == {Arrow("A", "B", frozenset({"Announce", "Ask"}))}
    assert Row("A", "when", "B", "").arrows() == {Arrow("A", "B", frozenset())}
