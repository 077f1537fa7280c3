"""Read which hosts a user knows by name: the Host lines of an ssh config."""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import suppress

_MOST_BYTES = 1 << 20
_DEEPEST = 4
_PATTERN = frozenset("*?!")


def names_in_config(path: str, home: str | None) -> list[str]:
    """Return the names that stand behind Host, without patterns, in the order of the file and what it includes."""
    return list(dict.fromkeys(_names(path, home, _DEEPEST)))


def _names(path: str, home: str | None, depth: int) -> Iterator[str]:
    text = ""
    with suppress(OSError), open(path, "rb") as file:
        text = file.read(_MOST_BYTES).decode(errors="replace")
    for line in re.finditer(r"^[ \t]*(\w+)[ \t]*[= \t][ \t]*(.*)$", text, re.MULTILINE):
        keyword, words = line[1].lower(), [word.strip('"') for word in line[2].split()]
        if keyword == "host":
            yield from (word for word in words if word and _PATTERN.isdisjoint(word))
        elif keyword == "include" and depth and home is not None:
            for word in words:
                meant = f"{home}{word[1:]}" if word.startswith("~/") else word
                for other in sorted(glob.glob(os.path.join(home, ".ssh", meant))):
                    yield from _names(other, home, depth - 1)
