"""Read the Python stacks of a job through py-spy, to show later where it hung.

py-spy reads by pid, which may belong to another process by then. What it read counts only if the process that was
meant has not ended before py-spy has.

It also opens files that the process names, through links, and says whether they are there. So root's py-spy must run
as the user of the process: `look` does that.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from fallow.actuators.process import programs
from fallow.actuators.process.programs import Ran
from fallow.actuators.process.signals import Handle
from fallow.actuators.process.spawn import find
from fallow.core.errors import CannotRun, FallowError, PartMissing
from fallow.core.process import Process, ProcessTable
from fallow.core.units import printable

LIMIT_S = 10.0
"""For one process: py-spy waits without end for one that is blocked in the kernel."""
_MOST_PROCESSES = 16
_NO_PYTHON = (b"Failed to find python version", b"Check that the process is running")
Look = Callable[[int, Sequence[str], Mapping[str, str]], Ran]
"""Runs py-spy for a process."""


def with_ours(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which py-spy is also found where pip puts it, which may not be on the PATH."""
    return {**environ, "PATH": f"{environ.get('PATH', os.defpath)}:{os.path.dirname(sys.executable)}"}


def shortcoming(environ: Mapping[str, str]) -> PartMissing | None:
    """Return why no stacks could be read; None if they can."""
    try:
        find(["py-spy"], with_ours(environ))
    except CannotRun:
        return PartMissing.of("writing a job's stacks", "py-spy")
    return None


def as_ourselves(_: int, command: Sequence[str], environ: Mapping[str, str]) -> Ran:
    """Run py-spy as this user: for processes that nobody else has started."""
    return programs.run(command, environ, LIMIT_S)


def stacks(
    processes: Iterable[Process], table: ProcessTable, environ: Mapping[str, str], look: Look = as_ourselves
) -> tuple[list[str], str]:
    """Return the stacks of each Python process among the first 16, and which could not be read, in words."""
    read, refused = [], []
    for process in islice(processes, _MOST_PROCESSES):
        handle = Handle.open(table, process, ())
        if handle is None:
            continue
        with handle:
            try:
                ran = look(process.pid, ["py-spy", "dump", "--pid", str(process.pid)], environ)
            except FallowError as error:
                refused.append(f"pid {process.pid}: {error}")
                continue
            if handle.ended():
                continue
        if ran.ok:
            read.append(_plain(ran.text.strip()))
        elif not any(words in ran.errors + ran.output for words in _NO_PYTHON):
            refused.append(f"pid {process.pid}: {ran.failure}")
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    return read, f"py-spy could not read {refused[0]}{more}" if refused else ""


def _plain(text: str) -> str:
    """Remove control characters: the job chooses the names in its stack, and people read the file on a terminal."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.splitlines())
