"""The arrows at the head of each policy are those that its code takes."""

import pytest

from tests.house.arrows import POLICIES, drawn, taken


@pytest.mark.parametrize("policy", POLICIES)
def test_the_head_of_a_policy_draws_every_arrow_that_its_code_takes_and_no_other(policy: str) -> None:
    assert drawn(policy) == taken(policy)
