"""Print tables on a terminal: aligned, coloured, folded or cut to fit, and redrawn in place.

A library for this takes longer to load than everything else that `fallow status` does.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO
from unicodedata import combining, east_asian_width

from fallow.core.units import is_number
from fallow.core.value import value
from fallow.interfaces.render.stream import is_dumb, shows_colour

_WIDE_ENOUGH = 200  # without a terminal there is no width to fit
_BETWEEN = "  "
_NARROWEST = 8
_WORD = re.compile(r"(?:^| )(\(?'/[^']*'[^ ]*|[^ ]*)")  # a path in quotes is one word, with the spaces in it
_STYLES = {
    "bold": "1",
    "bold green": "1;32",
    "bold red": "1;31",
    "bold yellow": "1;33",
    "green": "32",
    "cyan": "36",
    "blue": "34",
    "yellow": "33",
    "red": "31",
    "magenta": "35",
}


@value
class Styled:
    """A text in a colour."""

    text: str
    style: str
    tail: str = ""
    """What stays behind the text where that is cut."""
    short: str = ""
    """What is shown instead of a text that does not fit."""


Cell = str | Styled


@value
class Column:
    """One column: its heading, its alignment, and what is done where the table is too wide."""

    head: Cell
    right: bool = False
    folds: bool = False
    least: int = 0
    """The width to which its cells may be cut; 0 if they may not."""
    rank: int = 0
    """The column of the highest rank is left out first; one of rank 0 never is."""


class Screen:
    """The output for tables: a terminal, a pipe or a file."""

    def __init__(
        self, file: TextIO | None = None, environ: Mapping[str, str] = os.environ, piped: int = _WIDE_ENOUGH
    ) -> None:
        """`piped`: the width where there is no terminal."""
        self._file = sys.stdout if file is None else file
        self._environ = environ
        self._piped = piped
        self._terminal = self._file.isatty()
        self.is_dumb = is_dumb(self._file, environ)
        self._coloured = shows_colour(self._file, environ)

    @property
    def width(self) -> int:
        """Return how many characters fit on a line: COLUMNS, else the width of the terminal."""
        given = self._environ.get("COLUMNS", "")
        if is_number(given) and int(given) > 0:
            return int(given)
        return self._size()[0] if self._terminal else self._piped

    def write(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()

    def folded(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines that fit; what goes on in the next one stands two letters further in than its first."""
        for line in lines:
            if cells(line) <= self.width:
                yield line
                continue
            text = line.lstrip(" ")
            inset = " " * (len(line) - len(text))
            first, *others = folded_to(text, max(_NARROWEST, self.width - len(inset) - len(_BETWEEN)))
            yield f"{inset}{first}"
            yield from (f"{inset}{_BETWEEN}{other}" for other in others)

    def redraw(self, frames: Iterator[list[str]]) -> None:
        """Redraw each frame over the one before; print them one after the other where that is not possible."""
        if self.is_dumb:
            for frame in frames:
                self.write(frame)
            return
        drawn = 0
        try:
            self._file.write("\x1b[?25l")  # hide the cursor
            for frame in frames:
                shown = _as_high(frame, max(1, self._size()[1] - 1))
                above = f"\x1b[{drawn}F" if drawn else "\r"
                self._file.write(f"{above}\x1b[J")
                self.write(shown)
                drawn = len(shown)
        finally:
            self._file.write("\x1b[?25h")
            self._file.flush()

    def styled(self, cell: Cell) -> str:
        """Return a text in its colour, if colours are used."""
        if isinstance(cell, str):
            return cell
        return self._painted(cell.text + cell.tail, cell.style)

    def _painted(self, text: str, style: str) -> str:
        code = _STYLES.get(style) if self._coloured else None
        return text if code is None or not text else f"\x1b[{code}m{text}\x1b[0m"

    def cut(self, text: str, width: int, tail: str = "") -> str:
        """Return the text cut to that width, with the tail behind it."""
        if cells(text) + cells(tail) <= width:
            return text + tail
        end = "…" + tail
        if cells(end) > width:
            return _cut(text, width)[0]
        return _cut(text, width - cells(end))[0].rstrip() + end if width > cells(end) else end

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
        """Return the lines of a table."""
        heads = [
            column.head if isinstance(column.head, Styled) else Styled(column.head, "bold") for column in columns
        ]
        every: list[list[Cell]] = [list(row) for row in (heads, *rows)]
        kept = self._kept(columns, every)
        left = [columns[at] for at in kept]
        every = [[row[at] for at in kept] for row in every]
        widths = self._widths(left, every)
        return [line for row in every for line in self._row(left, row, widths)]

    def _kept(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
        """Return which columns fit; those of the highest rank are left out first."""
        natural = _natural(rows, len(columns))
        needed = [min(width, column.least or width) for column, width in zip(columns, natural, strict=True)]
        kept = list(range(len(columns)))
        while sum(needed[at] + len(_BETWEEN) for at in kept) - len(_BETWEEN) > self.width:
            last = max(kept, key=lambda at: columns[at].rank)
            if not columns[last].rank:
                break
            kept.remove(last)
        return kept

    def _widths(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
        """Return widths that fit the contents; if the sum is too wide, narrow what may be, the widest first."""
        widths = _natural(rows, len(columns))
        too_much = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - self.width
        least = {at: each.least or _NARROWEST for at, each in enumerate(columns) if each.folds or each.least}
        while too_much > 0 and (wide := [at for at in least if widths[at] > least[at]]):
            widest = max(wide, key=lambda at: widths[at])
            next_widest = max((widths[at] for at in wide if at != widest), default=0)
            less = max(1, min(too_much, widths[widest] - max(least[widest], next_widest)))
            widths[widest] -= less
            too_much -= less
        return widths

    def _row(self, columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> Iterator[str]:
        *_, last = columns
        folded = [
            list(folded_to(_text(cell), width, cuts_paths=column is not last))
            if column.folds
            else self._cut_cell(column, cell, width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        for number in range(max(map(len, folded))):
            parts = []
            for column, cell, lines, width in zip(columns, row, folded, widths, strict=True):
                text = lines[number] if number < len(lines) else ""
                room = " " * (width - cells(text))
                shown = self._painted(text, cell.style) if isinstance(cell, Styled) else text
                parts.append(f"{room}{shown}" if column.right else f"{shown}{room}")
            yield _BETWEEN.join(parts).rstrip()

    def _cut_cell(self, column: Column, cell: Cell, width: int) -> list[str]:
        if not column.least:
            return _text(cell).split("\n")
        if isinstance(cell, str):
            return [self.cut(cell, width)]
        fits = cells(cell.text) + cells(cell.tail) <= width
        return [self.cut(cell.text if fits else cell.short or cell.text, width, cell.tail)]

    def _size(self) -> tuple[int, int]:
        try:
            found = os.get_terminal_size(self._file.fileno())
        except (OSError, ValueError):
            return 80, 24
        return found.columns or 80, found.lines or 24


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def folded_to(text: str, width: int, *, cuts_paths: bool = False) -> Iterator[str]:
    """Yield the text in lines of at most that width, broken between words where possible.

    A path or address that is longer has a line of its own and stays whole, so that it can be copied: a terminal that
    goes on with a line in the next one copies it in one piece. `cuts_paths`: where something stands beside it.
    """
    for paragraph in text.split("\n"):
        line = ""
        for word in _WORD.findall(paragraph):
            longer = f"{line} {word}" if line else word
            if cells(longer) <= width:
                line = longer
                continue
            if line:
                yield line
            *full, line = [word] if "/" in word and not cuts_paths else _cut(word, width)
            yield from full
        yield line


def _cut(word: str, width: int) -> list[str]:
    """Return a word in pieces that fit."""
    pieces, piece = [], ""
    for letter in word:
        if piece and cells(piece + letter) > width:
            pieces.append(piece)
            piece = ""
        piece += letter
    return [*pieces, piece]


def _natural(rows: Sequence[Sequence[Cell]], columns: int) -> list[int]:
    """Return how wide each column is if nothing is cut or folded."""
    return [
        max((cells(line) for row in rows for line in _text(row[at]).split("\n")), default=0) for at in range(columns)
    ]


def _as_high(frame: list[str], lines: int) -> list[str]:
    """Return as much of a frame as fits on a screen, and how much of it does not."""
    if len(frame) <= lines or lines < 2:
        return frame[:lines]
    return [*frame[: lines - 1], f"and {len(frame) - lines + 1} more lines"]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text + cell.tail
