"""Print plain tables and reports."""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from fallow.core.activity import Activity
from fallow.core.units import printable
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.grid import Cell, Column, Screen, Styled, cells, folded_to

_VERDICTS = {
    "ok": "green",
    "no mistakes": "green",
    "lacking": "yellow",
    "broken": "red",
    "mistake": "red",
    "mistakes": "red",
}
"""The words that sum up what was checked, and their colours."""
_NAME_LEAST = 24
_FOLDED_LEAST = 8
_NOTE_WIDTH = 80
_LEFT_OUT = {"filled": 3, "free": 2, "unknown": 1}
"""The columns of a report that are left out where the terminal is too narrow, the highest first."""


def verdict(word: str) -> Styled:
    """Return such a word in its colour."""
    return Styled(word, _VERDICTS[word])


def coloured(cell: Cell) -> str:
    """Return a text in its colour, where stdout shows colours."""
    return Screen().styled(cell)


def show_rows(
    title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Cell]], left_out: Sequence[str] = ()
) -> None:
    """Print a plain table: the first and last columns aligned to the left, the others to the right.

    `left_out`: the columns that are left out where the terminal is too narrow to fold them, in this order.
    """
    screen = Screen()
    ranks = {name: rank for rank, name in enumerate(reversed(left_out), 1)}
    heads = [
        Column(name, right=0 < at < len(columns) - 1, folds=True, least=_FOLDED_LEAST, rank=ranks.get(name, 0))
        for at, name in enumerate(columns)
    ]
    lines = [] if title is None else folded_to(title, screen.width)
    above = [screen.styled(Styled(line, "bold yellow")) for line in lines]
    screen.write([*above, *screen.table(heads, _printable(rows))])


def show_lines(lines: Iterable[str]) -> None:
    """Print sentences, folded where a terminal is too narrow for them. In a pipe or a file each is one line."""
    screen = Screen(piped=sys.maxsize)
    screen.write(screen.folded(lines))


def progress_line(text: str, file: TextIO) -> str | None:
    """Return what replaces the line that the cursor is in, cut so that it stays one; None where nothing can."""
    screen = Screen(file)
    return None if screen.is_dumb else f"\r\x1b[K{screen.cut(text, screen.width - 1)}"


def note_width() -> int:
    """Return how wide the notes below a report may be: as its table, and at most 80 letters."""
    return min(Screen().width, _NOTE_WIDTH)


def show_hours(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: int,
    notes: Sequence[str] = (),
) -> None:
    """Print a report: the first `words` columns are text, the others numbers, headed in their activity's colour.

    Notes stand below it, in lines of at most `note_width`.
    """
    screen = Screen()
    named = [Styled(head, LOOKS[Activity(head)].terminal) if head in list(Activity) else head for head in heads]
    columns = [
        Column(head, right=at >= words, folds=True, least=_NAME_LEAST if at == 0 else 0, rank=_LEFT_OUT.get(name, 0))
        for at, (head, name) in enumerate(zip(named, heads, strict=True))
    ]
    above = [screen.styled(Styled(line, "bold")) for line in folded_to(printable(title), screen.width)]
    below: list[str] = []
    width = note_width()
    for note in notes:
        told = printable(note)
        below += [told] if cells(told) <= width else folded_to(told, width)
    screen.write([*above, *screen.table(columns, _printable(rows)), *below])


def _printable(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Return the rows without anything that moves a cursor; cells in colour are words of fallow."""
    return [[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
