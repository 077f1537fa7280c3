"""The program in a unit of systemd, as systemd reads it: an unquoted space ends a word there."""

import re

_ODD = re.compile(r"[\s\"'\\]")
_STARTS = re.compile(r"^ExecStart=[-@:+!|]*(\")?[-@:+!|]*((?(1)[^\"\n]+|\S+))", re.MULTILINE)
_WRITTEN_ODDLY = re.compile(r"\\x([0-9a-fA-F]{2})|%%")


def in_unit(word: str) -> str:
    """Return the word as it is written into a unit, so that systemd reads it as this one word.

    Quotes and backslashes it refuses in the name of a program, so that such a unit starts nothing.
    """
    return _ODD.sub(lambda found: "".join(f"\\x{each:02x}" for each in found[0].encode()), word.replace("%", "%%"))


def program_of(unit: str) -> str | None:
    """Return the program that a unit starts; None if it starts none."""
    started = _STARTS.search(unit)
    if started is None:
        return None
    return _WRITTEN_ODDLY.sub(lambda found: chr(int(found[1], 16)) if found[1] else "%", started[2])
