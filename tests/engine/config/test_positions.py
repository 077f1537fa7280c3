"""Every key and every list item is found exactly where it stands, in any style that TOML has."""

import itertools
import re
import tomllib
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from fallow.engine.config.toml_positions import Path, Place, Positions
from tests.engine.config.example import modest

NEWLINES = st.sampled_from(["\n", "\r\n"])
SPACES = st.sampled_from(["", " ", "\t "])
COMMENTS = st.sampled_from(["", " # decoy = 1", ' # ["decoy', " # '''"])
TRICKY = st.sampled_from(
    [
        '"# decoy"',
        '"\\"decoy = 1"',
        '"\\\\"',
        "'C:\\'",
        '""',
        "''",
        '"""\ndecoy = 1\n[decoy]\n"""',
        '""""quoted"""""',
        "'''\n[[decoy]]\\'''",
        '"""a\\"""b"""',
        "'''''two'''''",
        "1979-05-27 07:32:00",
        "07:32:00",
        "true",
        "-1.5e3",
        "inf",
        "0xff",
    ]
)


class Writer:
    """Writes a document whose keys and marked numbers are all different."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._numbers = itertools.count(1000)

    def key(self) -> str:
        number = next(self._numbers)
        forms = st.sampled_from(["k{}", "{}", "k-{}", '"k {}"', '"k.{}"', "'k\\{}'", '"\\u00e9\\"{}"', '"k # {}"'])
        return self._draw(forms).format(number)

    def dotted(self) -> str:
        dot = self._draw(st.sampled_from([".", " . "]))
        return dot.join(self.key() for _ in range(self._draw(st.integers(1, 2))))

    def value(self, depth: int = 0) -> str:
        kind = self._draw(st.sampled_from(["number", "tricky"] + ["list", "table"] * (depth < 3)))
        if kind == "number":
            return str(next(self._numbers))
        if kind == "tricky":
            return self._draw(TRICKY)
        count = self._draw(st.integers(0, 3))
        if kind == "list":
            gap = self._draw(st.sampled_from(["", " ", "\n  ", " # decoy ]\n"]))
            items = [gap + self.value(depth + 1) + gap for _ in range(count)]
            return f"[{','.join(items)}{',' * (count > 0 and self._draw(st.booleans()))}{gap}]"
        return f"{{ {', '.join(self.pair(depth + 1) for _ in range(count))} }}"

    def pair(self, depth: int = 0) -> str:
        space = self._draw(SPACES)
        return f"{self.dotted()}{space}={space}{self.value(depth)}"

    def lines(self) -> Iterator[str]:
        yield from (self.line(self.pair()) for _ in range(self._draw(st.integers(0, 2))))
        for _ in range(self._draw(st.integers(0, 3))):
            name, inner = self.dotted(), self.key()
            for _ in range(several := self._draw(st.integers(0, 3))):
                yield self.line(f"[[{name}]]")
                yield from (self.line(self.pair()) for _ in range(self._draw(st.integers(0, 2))))
                yield self.line(f"[ {name}.{inner} ]")
                yield self.line(self.pair())
            if not several:
                yield self.line(f"[{name}]")
                yield self.line(self.pair())

    def line(self, statement: str) -> str:
        return f"{self._draw(SPACES)}{statement}{self._draw(COMMENTS)}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = "\n".join(Writer(draw).lines())
    return text.replace("\n", draw(NEWLINES))


def paths_of(value: object, path: Path = ()) -> Iterator[Path]:
    """Every path of a document, as its parser sees it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for word, inner in pairs:
        yield (*path, word)
        yield from paths_of(inner, (*path, word))


def at(text: str, place: Place) -> str:
    """The text from a place on."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join([lines[place.line - 1][place.column - 1 :], *lines[place.line :]])


def key_at(text: str) -> str:
    found = re.match(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\w-]+', text)
    assert found, text
    return next(iter(tomllib.loads(f"{found[0]} = 1")))


@given(documents())
@modest
def test_all_that_the_parser_sees_has_its_place_and_nothing_else_has(text: str) -> None:
    values = tomllib.loads(text)
    positions = Positions(text)
    assert positions.places.keys() == set(paths_of(values))
    for path in positions.places:
        here = at(text, positions.nearest(path))
        if isinstance(path[-1], str):
            assert key_at(here) == path[-1]


@given(st.lists(st.integers(10, 99), min_size=1, max_size=5, unique=True), st.sampled_from(["", "\n", " # 7\n  "]))
@modest
def test_an_item_of_a_list_stands_where_it_is_written(numbers: list[int], gap: str) -> None:
    text = f"before = 1\nlist = [{gap}{f',{gap}'.join(map(str, numbers))}{gap}]\n"
    positions = Positions(text)
    for index, number in enumerate(numbers):
        assert at(text, positions.nearest(("list", index))).startswith(str(number))


def test_what_is_missing_is_placed_at_what_is_around_it() -> None:
    positions = Positions("\n\n[[filler]]\nname = 'a'\n[[filler]]\nname = 'b'\n")
    assert positions.nearest(("filler", 1, "command")) == Place(5, 3)
    assert positions.nearest(("nowhere",)) == Place(1, 1)
