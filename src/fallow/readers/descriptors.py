"""Reads which files a process has open, and how many."""

import os
from collections.abc import Collection
from itertools import islice

from fallow.core.value import value
from fallow.readers.proc_files import pass_on_shortage

_MOST = 16384


@value
class OpenFiles:
    """How many descriptors a process has on some files, and how many were read to find that."""

    counts: dict[str, int]
    read: int = 0


def open_files(root: str, pid: int, paths: Collection[str]) -> OpenFiles:
    """Return how many descriptors the process has on each of these files, as far as they are visible."""
    folder = f"{root}/{pid}/fd"
    counts: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST)]
    except OSError as error:
        pass_on_shortage(error)
        return OpenFiles(counts)
    for name in names:
        try:
            path = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if path in paths:
            counts[path] = counts.get(path, 0) + 1
    return OpenFiles(counts, len(names))


def how_many(root: str, pid: int) -> int:
    """Return how many descriptors a process has, where the kernel says so (since Linux 6.2); else 0."""
    try:
        return os.stat(f"{root}/{pid}/fd").st_size
    except OSError:
        return 0
