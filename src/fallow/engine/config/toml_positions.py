"""Find the line and column of each key in a TOML file.

The standard library's parser returns values without positions. This code reads a text that the parser has accepted,
so it validates nothing: it only finds where keys and list items begin. docs/decisions says why it is our own.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

from fallow.core.value import value

Path = tuple[str | int, ...]
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BARE = re.compile(r"[^ \t\n.=\]]*")
_SCALAR = re.compile(r"[^,\]}#\n]+")
# A string in any of its four forms; a long one may end in one or two quotes of its own.
_STRING = re.compile(r'''"""(?:\\.|[^\\])*?"{3,}|\'{3}.*?\'{3,}|"(?:\\.|[^"\\])*"|\'[^\']*\'''', re.DOTALL)


@value
class Place:
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Positions:
    """The positions of all keys, tables and list items of a text."""

    def __init__(self, text: str) -> None:
        """Take a text that tomllib has accepted."""
        walk = _Walk(text.replace("\r\n", "\n"))
        walk.statements()
        self.places: Mapping[Path, Place] = walk.places

    def nearest(self, path: Path) -> Place:
        """Return the position of a path, or of the innermost table or list around it that is in the file."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))


class _Walk:
    """One pass over the text, which records the position of each key."""

    def __init__(self, text: str) -> None:
        self.places: dict[Path, Place] = {}
        self._text = text
        self._at = 0
        self._table: Path = ()
        self._lengths: dict[Path, int] = {}  # of lists written as [[…]]
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def statements(self) -> None:
        """Read the whole text."""
        self._skip_blank()
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                self._header(2)
            elif self._text[self._at] == "[":
                self._header(1)
            else:
                self._pair(self._table)
            self._skip_blank()

    def _header(self, brackets: int) -> None:
        """Read `[a.b]` or `[[a.b]]`; a part that names a list means its last item."""
        self._at += brackets
        parts = self._key()
        self._at += brackets
        path: Path = ()
        for depth, (word, place) in enumerate(parts, start=1):
            path = (*path, word)
            self.places.setdefault(path, place)
            last = depth == len(parts)
            if last and brackets == 2:
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
                self.places.setdefault(path, place)
        self._table = path

    def _pair(self, inside: Path) -> None:
        """Read `a.b = value`."""
        path = inside
        for word, place in self._key():
            path = (*path, word)
            self.places.setdefault(path, place)
        self._at += 1  # the =
        self._skip_blank()
        self._value(path)

    def _key(self) -> list[tuple[str, Place]]:
        """Return the parts of a key, each with its position, and step over the key."""
        parts: list[tuple[str, Place]] = []
        while True:
            self._skip_blank()
            place, quoted = self._place(), self._text[self._at] in "\"'"
            word = self._step_over(_STRING if quoted else _BARE)
            if quoted:
                word = tomllib.loads(f"key = {word}")["key"]
            parts.append((word, place))
            self._skip_blank()
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: Path) -> None:
        match self._text[self._at]:
            case '"' | "'":
                self._step_over(_STRING)
            case "[":
                self._list(path)
            case "{":
                self._inline_table(path)
            case _:
                self._step_over(_SCALAR)

    def _list(self, path: Path) -> None:
        self._at += 1
        count = 0
        while not self._closed("]"):
            item = (*path, count)
            self.places[item] = self._place()
            self._value(item)
            count += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while not self._closed("}"):
            self._pair(path)

    def _closed(self, bracket: str) -> bool:
        """Return whether the list or table ends here; step over its end, or over the comma before its next item."""
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_blank()
        if self._text[self._at] != bracket:
            return False
        self._at += 1
        return True

    def _skip_blank(self) -> None:
        """Step over spaces, line ends and comments."""
        self._step_over(_BLANK)

    def _step_over(self, pattern: re.Pattern[str]) -> str:
        """Return what the pattern matches here, and step over it."""
        found = pattern.match(self._text, self._at)
        assert found is not None, "tomllib has accepted the text"
        self._at = found.end()
        return found[0]

    def _place(self) -> Place:
        """Return the current position."""
        line = bisect_right(self._line_starts, self._at)
        return Place(line, self._at - self._line_starts[line - 1] + 1)
