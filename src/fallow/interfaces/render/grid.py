"""Print tables on a terminal: aligned, coloured, folded to fit, and redrawn in place.

A library for this takes longer to load than everything else that `fallow status` does.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO
from unicodedata import combining, east_asian_width

from fallow.core.units import is_number
from fallow.core.value import value

_WIDE_ENOUGH = 200  # without a terminal there is no width to fit
_BETWEEN = "  "
_NARROWEST = 8
_STYLES = {
    "bold": "1",
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


Cell = str | Styled


@value
class Column:
    """One column: its heading, its alignment, and whether it may be folded."""

    head: Cell
    right: bool = False
    folds: bool = False


class Screen:
    """The output for tables: a terminal, a pipe or a file."""

    def __init__(self, file: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self._file = sys.stdout if file is None else file
        self._environ = environ
        self._terminal = self._file.isatty()
        self.is_dumb = not self._terminal or environ.get("TERM", "dumb") in ("dumb", "unknown", "")
        self._coloured = not self.is_dumb and "NO_COLOR" not in environ

    @property
    def width(self) -> int:
        """Return how many characters fit on a line: COLUMNS, else the width of the terminal."""
        given = self._environ.get("COLUMNS", "")
        if is_number(given) and int(given) > 0:
            return int(given)
        return self._size()[0] if self._terminal else _WIDE_ENOUGH

    def write(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()

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
                shown = frame[: max(1, self._size()[1] - 1)]
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
        style = _STYLES.get(cell.style) if self._coloured else None
        return cell.text if style is None or not cell.text else f"\x1b[{style}m{cell.text}\x1b[0m"

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
        """Return the lines of a table."""
        heads = [
            column.head if isinstance(column.head, Styled) else Styled(column.head, "bold") for column in columns
        ]
        widths = self._widths(columns, [heads, *rows])
        return [line for row in (heads, *rows) for line in self._row(columns, row, widths)]

    def _widths(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
        """Return widths that fit the contents; if the sum is too wide, narrow columns that fold, the widest first."""
        widths = [
            max((cells(line) for row in rows for line in _text(row[at]).split("\n")), default=0)
            for at in range(len(columns))
        ]
        too_much = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - self.width
        folding = [at for at, column in enumerate(columns) if column.folds]
        while too_much > 0 and any(widths[at] > _NARROWEST for at in folding):
            widest = max(folding, key=lambda at: widths[at])
            next_widest = max((widths[at] for at in folding if at != widest), default=_NARROWEST)
            less = max(1, min(too_much, widths[widest] - max(_NARROWEST, next_widest)))
            widths[widest] -= less
            too_much -= less
        return widths

    def _row(self, columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> Iterator[str]:
        folded = [
            list(folded_to(_text(cell), width) if column.folds else _text(cell).split("\n"))
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        for number in range(max(map(len, folded))):
            parts = []
            for column, cell, lines, width in zip(columns, row, folded, widths, strict=True):
                text = lines[number] if number < len(lines) else ""
                room = " " * (width - cells(text))
                shown = self.styled(Styled(text, cell.style)) if isinstance(cell, Styled) else text
                parts.append(f"{room}{shown}" if column.right else f"{shown}{room}")
            yield _BETWEEN.join(parts).rstrip()

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


def folded_to(text: str, width: int) -> Iterator[str]:
    """Yield the text in lines of at most that width, broken between words where possible."""
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if cells(longer) <= width:
                line = longer
                continue
            if line:
                yield line
            *full, line = _cut(word, width)
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


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text
