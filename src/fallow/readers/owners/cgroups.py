"""Read the cgroups of a process as the kernel lists them: one in each line, and only a line feed ends a line.

Users name their own cgroups, with every character but a slash and a line feed. Python's `splitlines` ends a line at
many more, so that a name could pretend to be another line. A path counts only as far as all of it can be printed:
what is below a name that cannot belongs to nobody else.
"""

import os
from itertools import takewhile

_LONGEST_PATH = 4096  # of the kernel's own paths
_ROOT = "/"


def paths_in(raw: bytes) -> tuple[str, ...]:
    """Return the paths in a /proc/PID/cgroup, the unified one first."""
    lines = [line.split(b":", 2) for line in raw.split(b"\n")]
    return tuple(dict.fromkeys(_printable(line[2]) for line in reversed(lines) if len(line) == 3))


def with_name(path: str, end: int) -> str:
    """Return the path up to the end of the name that goes on at this place."""
    slash = path.find("/", end)
    return path if slash < 0 else path[:slash]


def _printable(raw: bytes) -> str:
    path = os.fsdecode(raw)
    if len(path) > _LONGEST_PATH:
        return _ROOT
    return path if path.isprintable() else "/".join(takewhile(str.isprintable, path.split("/"))) or _ROOT
