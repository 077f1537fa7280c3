"""Values behave as frozen dataclasses do."""

import pytest

from fallow.core.unknown import Unknown, known
from fallow.core.value import fields, replace, value


@value
class Point:
    x: int
    y: int = 2


@value
class Named(Point):
    name: str = "origin"


def test_fields_come_by_place_or_by_name() -> None:
    assert Point(1) == Point(x=1, y=2)
    assert Point(1, 3).y == 3
    assert fields(Named) == ("x", "y", "name")
    assert Named(1, 2, "p").name == "p"


def test_a_value_never_changes() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        Point(1).x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del Point(1).x


def test_values_are_equal_by_content_and_kind() -> None:
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_replacing_makes_another_value() -> None:
    before = Point(1)
    assert replace(before, y=5) == Point(1, 5)
    assert before == Point(1)
    with pytest.raises(TypeError):
        replace(before, z=1)


@pytest.mark.parametrize("wrong", [(), (1, 2, 3)])
def test_a_field_too_few_or_too_many_is_an_error(wrong: tuple[int, ...]) -> None:
    with pytest.raises(TypeError):
        Point(*wrong)
    with pytest.raises(TypeError):
        Point(1, x=1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Point(1, z=1)  # type: ignore[call-arg]


def test_a_value_tells_what_it_holds() -> None:
    assert repr(Named(1)) == "Named(x=1, y=2, name='origin')"


def test_unknown_is_neither_true_nor_false_nor_zero() -> None:
    gone = Unknown("nobody asked")
    with pytest.raises(TypeError, match="nobody asked"):
        bool(gone)
    with pytest.raises(TypeError):
        assert gone < 1  # type: ignore[operator]
    assert gone != 0
    assert known(gone, 3) == 3
    assert known(4, 3) == 4
