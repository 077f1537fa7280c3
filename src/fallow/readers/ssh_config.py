"""Read which hosts a user knows by name: the Host lines of an ssh config."""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import suppress

_MOST_BYTES = 1 << 20
_MOST_FILES = 64
_DEEPEST = 4
_PATTERN = frozenset("*?!")


def names_in_config(path: str, home: str | None) -> list[str]:
    """Return the names that stand behind Host, without patterns, in the order of the file and what it includes."""
    return list(dict.fromkeys(_names(path, home, [_MOST_FILES], _DEEPEST)))


def _names(path: str, home: str | None, left: list[int], depth: int) -> Iterator[str]:
    for line in _lines(path):
        found = re.match(r"\s*(\w+)\s*[=\s]\s*(.*)", line)
        if found is None:
            continue
        keyword, words = found[1], [word.strip('"') for word in found[2].split()]
        if keyword.lower() == "host":
            yield from (word for word in words if word and _PATTERN.isdisjoint(word))
        elif keyword.lower() == "include" and depth and home is not None:
            for word in words:
                meant = f"{home}{word[1:]}" if word.startswith("~/") else word
                for other in sorted(glob.glob(os.path.join(home, ".ssh", meant))):
                    if left[0] <= 0:
                        return
                    left[0] -= 1
                    yield from _names(other, home, left, depth - 1)


def _lines(path: str) -> list[str]:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    return []
