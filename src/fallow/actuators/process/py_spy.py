"""Write the Python stacks of a job through py-spy, to show later where it hung.

py-spy reads by pid, which may belong to another process by then. What it read counts only if the process that was
meant has not ended before py-spy has.

It also opens files that the process names, through links, and says whether they are there. So root's py-spy must run
as the user of the process: `looks_as` says how.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from fallow.actuators.files.atomic_file import replace_file
from fallow.actuators.files.state_folder import prepared
from fallow.actuators.process import programs
from fallow.actuators.process.programs import Ran
from fallow.actuators.process.signals import Handle
from fallow.actuators.process.spawn import find
from fallow.core.errors import CannotRun, CommandNotFound, FallowError, PartMissing
from fallow.core.process import Process, ProcessTable
from fallow.core.units import printable, shortened
from fallow.core.value import value

_BESIDE_US = os.path.dirname(sys.executable)  # where pip puts py-spy, which may not be on the PATH
_MOST_PROCESSES = 64
_LONGEST_REFUSAL = 200
LooksAs = Callable[[int, Sequence[str], Mapping[str, str]], "Run | None"]
"""Returns how the command is run for a process; None if it must not be."""
_LIMIT_S = 10.0  # for one process; py-spy waits without end for one that is blocked in the kernel


@value
class Run:
    """A program to run: its words, its environment and its stdin."""

    command: Sequence[str]
    environ: Mapping[str, str]
    reads: bytes = b""


def as_ourselves(_: int, command: Sequence[str], environ: Mapping[str, str]) -> Run:
    """Run it as this user: for processes that nobody else has started."""
    return Run(command, environ)


def shortcoming(environ: Mapping[str, str]) -> PartMissing | None:
    """Return why no stacks could be written; None if they can."""
    try:
        find(["py-spy"], _with_ours(environ, _BESIDE_US))
    except (CommandNotFound, CannotRun):
        return PartMissing.of("writing a job's stacks", "py-spy")
    return None


def dump(
    processes: Iterable[Process],
    table: ProcessTable,
    folder: str,
    name: str,
    environ: Mapping[str, str],
    *,
    looks_as: LooksAs = as_ourselves,
    limit_s: float = _LIMIT_S,
    beside: str = _BESIDE_US,
) -> str:
    """Write the stacks of each Python process to a file; return a sentence with its path, or why not.

    Of a job with very many processes the first ones are read.
    """
    beside_us = _with_ours(environ, beside)
    stacks: list[str] = []
    refusals: list[str] = []
    for process in islice(processes, _MOST_PROCESSES):
        handle = Handle.open(table, process, ())
        if handle is None:
            continue
        with handle:
            run = looks_as(process.pid, ["py-spy", "dump", "--pid", str(process.pid)], beside_us)
            if run is None:
                refusals.append(f"pid {process.pid}: whose process it is cannot be told")
                continue
            try:
                ran = programs.run(run.command, run.environ, limit_s, run.reads)
            except (CommandNotFound, CannotRun):
                return f"no stacks: {PartMissing.of('that', 'py-spy')}"
            if handle.ended():
                continue
        if ran.ok:
            stacks.append(_plain(ran.text.strip()))
        elif not _is_no_python(ran):
            refusals.append(f"pid {process.pid}: {_refusal(ran, limit_s)}")
    left_out = f"; left out: {', '.join(refusals)}" if refusals else ""
    if not stacks:
        return f"no stacks{left_out}" if refusals else "no stacks: the job has no Python process that could be read"
    try:
        into = os.path.join(prepared(folder), name)
        replace_file(into, "\n\n".join(stacks) + "\n")
    except FallowError as error:
        return f"no stacks: {error}"
    except OSError as error:
        return f"no stacks: {folder} cannot be written: {error.strerror}"
    many = "1 process" if len(stacks) == 1 else f"{len(stacks)} processes"
    return f"the Python stacks of {many} are in {into}{left_out}"


def _with_ours(environ: Mapping[str, str], beside: str) -> dict[str, str]:
    return {**environ, "PATH": f"{environ.get('PATH', os.defpath)}:{beside}"}


def _is_no_python(ran: Ran) -> bool:
    """Return whether py-spy says that it is no Python program, or has ended meanwhile."""
    said = _said(ran)
    return "Failed to find python version" in said or "Check that the process is running" in said


def _refusal(ran: Ran, limit_s: float) -> str:
    if ran.ended is None:
        return f"py-spy did not answer in {limit_s:g} s"
    if "Permission Denied" in _said(ran):
        return "py-spy may not look into it; that needs root, or the capability SYS_PTRACE"
    said = _said(ran).splitlines()
    return (
        shortened(printable(said[0]), _LONGEST_REFUSAL)
        if said
        else f"py-spy ended with exit code {ran.ended.exit_code}"
    )


def _said(ran: Ran) -> str:
    return (ran.errors or ran.output).decode(errors="replace").strip()


def _plain(text: str) -> str:
    """Remove control characters: the job chooses the names in its stack, and people read the file on a terminal."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.splitlines())
