"""Read files and folders of /proc up to a limit: other users choose how long a command line or an environment is.

What is gone or may not be read is None. Any other error is raised: a lack of descriptors says nothing about it.
"""

import os
from collections.abc import Collection
from itertools import islice

MOST_OF_COMMAND = 4096
_MOST = 1 << 20
_MOST_OF_ENVIRON = 8 << 20  # the kernel gives arguments and environment 6 MiB in all, so nothing is beyond
_MOST_OF_MAPS = 16 << 20  # a process has some ten thousand mappings at most, and may give their files long names
_MOST_DESCRIPTORS = 16384
_UNREADABLE = (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError)


def read_start(path: str, most: int = MOST_OF_COMMAND) -> bytes | None:
    """Return the first bytes of a file, from one read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, most)
        finally:
            os.close(fd)
    except _UNREADABLE:
        return None


def read_whole(path: str, most: int = _MOST) -> bytes | None:
    """Return a whole file."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except _UNREADABLE:
        return None


def read_variables(root: str, pid: int, beginnings: tuple[bytes, ...]) -> dict[str, str] | None:
    """Return the variables of a process that begin so."""
    raw = read_whole(f"{root}/{pid}/environ", _MOST_OF_ENVIRON)
    if raw is None:
        return None
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry.startswith(beginnings))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def open_counts(root: str, pid: int, paths: Collection[str]) -> dict[str, int]:
    """Return how many descriptors the process has on each of these files, as far as they are visible."""
    folder = f"{root}/{pid}/fd"
    counts: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_DESCRIPTORS)]
    except _UNREADABLE:
        return counts
    for name in names:
        try:
            path = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # closed this moment
        if path in paths:
            counts[path] = counts.get(path, 0) + 1
    return counts


def mapped_files(root: str, pid: int, paths: Collection[str]) -> frozenset[str]:
    """Return which of these files a process has in its memory: it did that itself, or was forked from who did.

    An open file can be handed to any program that takes descriptors from strangers. A mapping cannot.
    """
    lines = (read_whole(f"{root}/{pid}/maps", _MOST_OF_MAPS) or b"").split(b"\n")
    names = {fields[5] for line in lines if len(fields := line.split(None, 5)) == 6}
    return frozenset(path for path in paths if os.fsencode(path) in names)
