"""A process by its identity, how one ends, and what hands must know of the others."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from fallow.core.unknown import Unknown
from fallow.core.value import value

_KILLED_BY = 128


@value
class Process:
    """A process is its pid and its birth: a pid alone may be somebody else by now."""

    pid: int
    birth: int


@value
class Ended:
    """How a process ended: with a code, or by a signal."""

    code: int | None = None
    by_signal: int | None = None

    @property
    def exit_code(self) -> int:
        """What a shell shows for it."""
        return _KILLED_BY + self.by_signal if self.by_signal is not None else self.code or 0


class ProcessRow(Protocol):
    """What the table says of one process."""

    @property
    def pid(self) -> int:
        """Its number, for as long as it lives."""

    @property
    def parent(self) -> int:
        """Who started it, or adopted it."""

    @property
    def group(self) -> int:
        """The process group that it is in."""

    @property
    def session(self) -> int:
        """The session that it is in, named by the process that began it."""

    @property
    def birth(self) -> int:
        """When it began, in clock ticks since boot."""

    @property
    def state(self) -> str:
        """One letter, as the kernel gives it: R, S, D, T, Z and a few more."""


class ProcessTable(Protocol):
    """Whatever knows the processes of this machine."""

    def whose_pids(self) -> str | None:
        """Why its pids are not those that we signal by; None if they are."""

    def everybody(self) -> Sequence[ProcessRow]:
        """All processes that can be seen."""

    def stat(self, pid: int) -> ProcessRow | None:
        """One process; None if there is no such."""

    def ancestors(self, pid: int) -> Iterator[int]:
        """The parent of the process, its parent, and so on."""

    def command(self, pid: int) -> str | Unknown:
        """The command line."""
