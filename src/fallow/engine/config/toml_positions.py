"""Find the line and column of each key in a TOML file.

The standard library's parser returns values without positions. This code reads a text that the parser has accepted,
so it validates nothing: it only finds where keys and list items begin. docs/decisions says why it is our own.
"""

import tomllib
from collections.abc import Mapping

from fallow.core.value import value

Path = tuple[str | int, ...]
_BARE_ENDS = frozenset(" \t\n.=]")
_SCALAR_ENDS = frozenset(",]}#\n")
_BLANK = frozenset(" \t\n")


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
        self._places: Mapping[Path, Place] = walk.places

    def __contains__(self, path: Path) -> bool:
        return path in self._places

    def nearest(self, path: Path) -> Place:
        """Return the position of a path, or of the innermost table or list around it that is in the file."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, Place(1, 1))

    def paths(self) -> frozenset[Path]:
        """Return the path of everything that has a position."""
        return frozenset(self._places)


class _Walk:
    """One pass over the text, which records the position of each key."""

    def __init__(self, text: str) -> None:
        self.places: dict[Path, Place] = {}
        self._text = text
        self._at = 0
        self._table: Path = ()
        self._lengths: dict[Path, int] = {}  # of lists written as [[…]]
        self._line = 1
        self._counted_to = 0
        self._line_start = 0

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
            place, start = self._place(), self._at
            if self._text[start] in "\"'":
                self._string()
                word = tomllib.loads(f"key = {self._text[start : self._at]}")["key"]
            else:
                while self._text[self._at] not in _BARE_ENDS:
                    self._at += 1
                word = self._text[start : self._at]
            parts.append((word, place))
            self._skip_blank()
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: Path) -> None:
        match self._text[self._at]:
            case '"' | "'":
                self._string()
            case "[":
                self._list(path)
            case "{":
                self._inline_table(path)
            case _:
                self._at += 1
                while self._at < len(self._text) and self._text[self._at] not in _SCALAR_ENDS:
                    self._at += 1

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

    def _string(self) -> None:
        """Step over a string in any of its four forms."""
        quote = self._text[self._at]
        long = self._text.startswith(quote * 3, self._at)
        end = quote * 3 if long else quote
        self._at += len(end)
        while not self._text.startswith(end, self._at):
            self._at += 2 if self._text[self._at] == "\\" and quote == '"' else 1
        self._at += len(end)
        # A long string may end in one or two quotes of its own.
        while long and self._at < len(self._text) and self._text[self._at] == quote:
            self._at += 1

    def _skip_blank(self) -> None:
        """Step over spaces, line ends and comments."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at] in _BLANK:
                self._at += 1
            else:
                return

    def _place(self) -> Place:
        """Return the current position. Lines are counted from where they were counted last."""
        self._line += self._text.count("\n", self._counted_to, self._at)
        newest = self._text.rfind("\n", self._counted_to, self._at)
        self._line_start = newest + 1 if newest >= 0 else self._line_start
        self._counted_to = self._at
        return Place(self._line, self._at - self._line_start + 1)
