"""Reads which files a process has open or in its memory."""

import os
from collections.abc import Collection
from itertools import islice

from fallow.readers.proc_files import pass_on_shortage

_MOST = 16384
_MOST_OF_MAPS = 16 << 20  # a process has some ten thousand mappings at most, and may give their files long names


def open_counts(root: str, pid: int, paths: Collection[str]) -> dict[str, int]:
    """Return how many descriptors the process has on each of these files, as far as they are visible."""
    folder = f"{root}/{pid}/fd"
    counts: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST)]
    except OSError as error:
        pass_on_shortage(error)
        return counts
    for name in names:
        try:
            path = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if path in paths:
            counts[path] = counts.get(path, 0) + 1
    return counts


def mapped_files(root: str, pid: int, paths: Collection[str]) -> frozenset[str]:
    """Return which of these files a process has in its memory: it did that itself, or was forked from who did.

    An open file can be handed to any program that takes descriptors from strangers. A mapping cannot.
    """
    try:
        with open(f"{root}/{pid}/maps", "rb") as maps:
            lines = maps.readlines(_MOST_OF_MAPS)
    except OSError as error:
        pass_on_shortage(error)
        return frozenset()
    names = {fields[5] for line in lines if len(fields := line.rstrip(b"\n").split(None, 5)) == 6}
    return frozenset(path for path in paths if os.fsencode(path) in names)
