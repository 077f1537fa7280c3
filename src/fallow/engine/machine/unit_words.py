"""The program in a unit of systemd, as systemd reads it: an unquoted space ends a word there."""

import re

_ODD = re.compile(r"[\s\"'\\]")


def in_unit(word: str) -> str:
    """Return the word as it is written into a unit, so that systemd reads it as this one word.

    Quotes and backslashes it refuses in the name of a program, so that such a unit starts nothing.
    """
    return _ODD.sub(lambda found: "".join(f"\\x{each:02x}" for each in found[0].encode()), word.replace("%", "%%"))
