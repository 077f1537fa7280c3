"""What fails in one part is told once and keeps no other from its turn."""

import errno

import pytest

from fallow.core.errors import NotPermitted
from fallow.engine.machine.walls import Walls


@pytest.mark.parametrize("error", [NotPermitted("no right"), OSError(errno.EACCES, "no right"), KeyError("x")])
def test_a_part_that_fails_is_told_once_until_it_works_again(error: Exception) -> None:
    told: list[str] = []
    walls = Walls(told.append)
    after = []
    for turn in range(40):
        with walls.around("the rules", lambda: after.append("otherwise")):
            if turn < 20 and turn % 3:
                raise error
        after.append("next")
    assert [line.split(":")[0] for line in told] == ["the rules failed", "the rules"]
    assert after.count("next") == 40
    assert after.count("otherwise") == 13
