"""Lay out the help of a command: in lines of 80 letters, or as narrow as the terminal is."""

import argparse
import os
import re
from collections.abc import Iterator
from itertools import groupby

from fallow.core.units import is_number

_WIDTH = 80
_EXPLAINED = re.compile(r"( +\S.*?) {2,}(\S.*)")
"""A command and, some spaces behind it, what it does."""
_BELOW = 6
_HELP_BEGINS = 24


class HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Formats help without breaking words. What has room keeps the lines in which it is written."""

    def __init__(self, prog: str) -> None:
        # argparse makes a formatter for every option, and would load shutil for its width.
        width = min(_columns(), _WIDTH)
        super().__init__(prog, max_help_position=min(_HELP_BEGINS, width // 3), width=width)

    def start_section(self, heading: str | None) -> None:
        """Begin a group of options."""
        super().start_section(heading and "\n".join(_folded(heading, self._width)))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _folded(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        if any(len(line) > width for line in lines):
            lines = list(_narrow(lines, width))
        return "".join(f"{indent}{line}\n" for line in lines).removesuffix("\n")


def _narrow(lines: list[str], width: int) -> Iterator[str]:
    """Yield paragraphs folded anew, and commands whole, to be copied, with what they do below them if need be."""
    for stays, some in groupby(lines, key=lambda line: not line or line.startswith(" ")):
        if not stays:
            yield from _folded(" ".join(some), width)
            continue
        for line in some:
            explained = _EXPLAINED.fullmatch(line) if len(line) > width else None
            if explained is None:
                yield line
            else:
                yield explained[1]
                yield from (f"{' ' * _BELOW}{part}" for part in _folded(explained[2], width - _BELOW))


def _folded(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if is_number(given) and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size().columns or _WIDTH
    except OSError:
        return _WIDTH
