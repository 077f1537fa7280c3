"""Small tables for notebooks. They have no colours of their own but those of activities: the theme has the others."""

from collections.abc import Sequence
from typing import NamedTuple

from fallow.core.activity import Activity
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown

_LONGEST = 120
_MOST_ROWS = 100


class Figure(NamedTuple):
    """A cell that is aligned to the right, with what it says when pointed at."""

    text: str
    title: str = ""


class Coloured(NamedTuple):
    """A cell with a dot in a colour that is seen on white and on black."""

    text: str
    colour: str


Cell = str | Figure | Coloured


def plain(text: str | Unknown | None) -> str:
    """Return a text; `?` for one that is not known."""
    return "?" if isinstance(text, Unknown) else "" if text is None else text


def size(number: object) -> str:
    """Return bytes for people."""
    return bytes_for_people(number) if isinstance(number, int) else "?"


def figure(number: object, form: str) -> Figure:
    """Return a figure for people; what is not known is `?`, and says why when it is pointed at."""
    if isinstance(number, Unknown):
        return Figure("?", number.why)
    if number is None:
        return Figure("")
    if form == "duration":
        return Figure(duration_for_people(number) if isinstance(number, int | float) else "?")
    return Figure(form.format(number))


def coloured(activity: Activity) -> Coloured:
    """Return an activity in its colour."""
    from fallow.interfaces.render.colours import LOOKS

    return Coloured(activity.value, LOOKS[activity].light)


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table without the columns in which nothing is, with at most some rows."""
    used = [
        at for at in range(len(heads)) if any(row[at] if isinstance(row[at], str) else row[at][0] for row in rows)
    ]
    lines = ['<table style="font-variant-numeric: tabular-nums">']
    if caption:
        lines.append(f'<caption style="text-align: left; caption-side: top">{_text(caption)}</caption>')
    right = {at for at in used if any(isinstance(row[at], Figure) for row in rows)}
    named = "".join(f'<th style="{_aligned(right=at in right)}">{_text(heads[at])}</th>' for at in used)
    lines.append(f"<thead><tr>{named}</tr></thead><tbody>")
    lines += [f"<tr>{''.join(_cell(row[at]) for at in used)}</tr>" for row in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        lines.append(f'<tr><td colspan="{len(used)}">and {len(rows) - _MOST_ROWS} more</td></tr>')
    return "".join([*lines, "</tbody></table>"])


def paragraphs(lines: Sequence[str]) -> str:
    """Return lines of text, each as wide as the notebook; the first one is what matters most."""
    first = "".join(f"<div><strong>{_text(line, 1000)}</strong></div>" for line in lines[:1])
    further = (("2em" if line.startswith(" ") else "0", _text(line.strip(), 1000)) for line in lines[1:_MOST_ROWS])
    return first + "".join(f'<div style="margin-left: {indent}">{text}</div>' for indent, text in further)


def _cell(cell: Cell) -> str:
    match cell:
        case Figure(text, title):
            said = f' title="{_text(title, 1000)}"' if title else ""
            return f'<td style="{_aligned(right=True)}"{said}>{_text(text)}</td>'
        case Coloured(text, colour):
            dot = f'<span style="color: {colour}" aria-hidden="true">&#9679;</span>'
            return f'<td style="{_aligned(right=False)}">{dot} {_text(text)}</td>'
        case _:
            return f'<td style="{_aligned(right=False)}">{_text(str(cell))}</td>'


def _aligned(*, right: bool) -> str:
    return "text-align: right; white-space: nowrap" if right else "text-align: left"


def _text(text: str, longest: int = _LONGEST) -> str:
    """Return text that others may have written, shortened and without a meaning in HTML."""
    from html import escape

    return escape(shortened(printable(text), longest))
