"""The identity of a process, how it ended, and the table of processes."""

from collections.abc import Iterator, Sequence

from fallow.core.annotations import Protocol
from fallow.core.unknown import Unknown
from fallow.core.value import value

_KILLED_BY = 128
DEEPEST = 64
"""How many ancestors of a process are looked at: programs do not nest deeper, but anybody can make a long chain."""


@value
class Process:
    """A process, identified by its pid and its birth: a pid alone may belong to another process by now."""

    pid: int
    birth: int


@value
class Ended:
    """How a process ended: with a code, or by a signal."""

    code: int | None = None
    by_signal: int | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code that a shell shows for it."""
        return _KILLED_BY + self.by_signal if self.by_signal is not None else self.code or 0


@value
class ProcessRow:
    """One row of the table of processes."""

    pid: int
    parent: int
    """The process that started or adopted it."""
    group: int
    session: int
    """The pid of the process that began its session."""
    birth: int
    """When it began, in clock ticks since boot."""
    state: str
    """The kernel's letter: R, S, D, T, Z and a few more."""

    @property
    def process(self) -> Process:
        """Return the identity of the process."""
        return Process(self.pid, self.birth)


class Pidfds(Protocol):
    """How a process is opened and signalled: by the kernel, or by what a test brings instead."""

    def open(self, pid: int) -> int:
        """Return a descriptor that names this process; raise ProcessLookupError if there is none."""

    def send(self, fd: int, number: int) -> None:
        """Signal the process; raise ProcessLookupError if it has ended, PermissionError if we may not."""


class ProcessTable(Protocol):
    """The processes of this machine."""

    @property
    def pidfds(self) -> Pidfds | None:
        """Return how these processes are signalled; None: by the kernel."""

    def whose_pids(self) -> str | None:
        """Return why its pids cannot be used for signals; None if they can."""

    def everybody(self) -> Sequence[ProcessRow]:
        """Return all visible processes."""

    def stat(self, pid: int) -> ProcessRow | None:
        """Return one process; None if there is none."""

    def ancestors(self, pid: int) -> Iterator[int]:
        """Return the parent of the process, its parent, and so on, without a limit: see DEEPEST."""

    def command(self, pid: int) -> str | Unknown:
        """Return the command line."""

    def user(self, pid: int) -> str | Unknown:
        """Return the name of the user who started the process."""
