"""What fails in one part is told once and keeps no other from its turn; a shortage ends the whole turn."""

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
        with walls.shortage_survived():
            with walls.around("the rules", lambda: after.append("otherwise")):
                if turn < 20 and turn % 3:
                    raise error
            after.append("next")
    assert [line.split(":")[0] for line in told] == ["the rules failed", "the rules"]
    assert after.count("next") == 40
    assert after.count("otherwise") == 13


def test_a_shortage_ends_the_turn_and_is_told_once() -> None:
    told: list[str] = []
    walls = Walls(told.append)
    for turn in range(40):
        with walls.shortage_survived(), walls.around("the rules"):
            if turn < 20:
                raise OSError(errno.EMFILE, "Too many open files")
    assert told == [
        "looking and acting wait, because the system gives no more: Too many open files",
        "looking and acting go on",
    ]
