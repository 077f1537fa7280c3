"""The whole tree of a job: its first process, all below it, and those that left it by setsid or a double fork.

fallow is the subreaper of the job: a process whose parent ends becomes our child, so no process of the job is lost.
An orphan does not show which process it descends from. All orphans belong to the job if no other process could have
started them. So one process supervises one job.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from fallow.actuators.process import signals
from fallow.actuators.process.signals import Handle
from fallow.core.process import Ended, Process, ProcessRow, ProcessTable
from fallow.core.units import program_name

_ROUND_S = 0.05
_STOPPED = "Tt"
_DEAD = "ZX"


class Orphans:
    """Decides which processes that become our children belong to the job. Made before the job starts."""

    def __init__(self, table: ProcessTable) -> None:
        signals.adopt_orphans()
        self._me = os.getpid()
        # A shell that became fallow by `exec` leaves it its children; pid 1 of a container gets all orphans.
        others = any(row.parent == self._me for row in table.everybody())
        self._only_the_job_has_any = self._me != 1 and not others

    def of_job(self, row: ProcessRow) -> bool:
        """Return whether a process that was not seen before is an orphan of the job."""
        return row.parent == self._me and self._only_the_job_has_any


class JobTree:
    """All processes of one job."""

    def __init__(
        self,
        table: ProcessTable,
        root: Process,
        monotonic_s: Callable[[], float],
        orphans: Orphans | None = None,
        spare: Callable[[ProcessRow], bool] = lambda _: False,
        beside: Collection[Process] = (),
    ) -> None:
        """`orphans` is None for a process that we did not start: processes that leave its tree are not found.

        `spare`: processes below it that are left alone, since they belong to another user. `beside`: more processes
        that belong to the job with all below them.
        """
        self.root = root
        self.ended: Ended | None = None
        self._table = table
        self._now = monotonic_s
        self._orphans = orphans
        self._spare = spare
        self._first = (root, *beside)
        self._known = frozenset(self._first)

    def has(self, pid: int) -> bool:
        """Return whether a process belongs to the job. Reads only it and its ancestors, so it is cheap."""
        for above in chain((pid,), self._table.ancestors(pid)):
            row = self._table.stat(above)
            if row is None:
                return False
            if self._is_ours(row):
                return True
        return False

    def living(self) -> list[ProcessRow]:
        """Return all living processes, parents before their children."""
        members = [row for row in self._members() if row.state not in _DEAD or not self._has_ended(row)]
        return [row for row in members if not self._spare(row)]

    def ask(self, number: int, but_not_group: int | None = None) -> int:
        """Signal all processes, children first; return how many got it. Stopped ones are continued to handle it.

        `but_not_group`: a process group that has got it already.
        """
        asked = 0
        for row, handle in self._handles(row for row in reversed(self.living()) if row.group != but_not_group):
            asked += handle.send(number)
            if row.state in _STOPPED:
                handle.send(signal.SIGCONT)
        return asked

    def kill(self, limit_s: float = 5.0) -> list[str]:
        """Send SIGKILL again and again until no process is left or the time is over; return who is left, and why."""
        until_s = self._now() + limit_s
        while True:
            self.reap()
            living = self.living()
            if not living:
                return []
            left_s = until_s - self._now()
            refused = self._kill(living)
            if left_s <= 0 or len(refused) == len(living):
                return [self._why_left(row, row.pid in refused) for row in living]
            handle = Handle.open(self._table, living[0].process, ())
            if handle is not None:
                with handle:
                    handle.wait(min(_ROUND_S, left_s))

    def reap(self) -> None:
        """Reap every child that has ended; remember the end of the job's first process."""
        with suppress(ChildProcessError):
            while self._orphans is not None and (child := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)):
                if child.si_pid == self.root.pid:
                    exited = child.si_code == os.CLD_EXITED
                    self.ended = Ended(code=child.si_status) if exited else Ended(by_signal=child.si_status)

    def _members(self) -> list[ProcessRow]:
        rows = sorted(self._table.everybody(), key=lambda row: (row.birth, row.pid))  # parents first
        found: dict[int, ProcessRow] = {}
        before = -1
        while len(found) > before:  # once more, since of two born at once the order is not certain
            before = len(found)
            for row in rows:
                if row.pid not in found and (row.parent in found or self._is_ours(row)):
                    found[row.pid] = row
        # A process that was seen in the tree stays known, even if it has another parent at the next look.
        self._known = frozenset((*self._first, *(row.process for row in found.values())))
        return list(found.values())

    def _is_ours(self, row: ProcessRow) -> bool:
        return row.process in self._known or (self._orphans is not None and self._orphans.of_job(row))

    def _has_ended(self, row: ProcessRow) -> bool:
        """Return whether all its threads have ended. /proc shows a zombie if only the first one has."""
        handle = Handle.open(self._table, row.process, ())
        if handle is None:
            return True
        with handle:
            return handle.ended()

    def _kill(self, living: Sequence[ProcessRow]) -> set[int]:
        """Kill one round, parents first: a parent may restart its children. Return those that we may not signal."""
        return {
            row.pid for row, handle in self._handles(living) if not handle.send(signal.SIGKILL) and not handle.ended()
        }

    def _handles(self, rows: Iterable[ProcessRow]) -> Iterator[tuple[ProcessRow, Handle]]:
        """Yield a handle of each process that is still the same one."""
        never = signals.untouchable(self._table)
        for row in rows:
            handle = Handle.open(self._table, row.process, never)
            if handle is not None:
                with handle:
                    yield row, handle

    def _why_left(self, row: ProcessRow, refused: bool) -> str:
        why = f"was killed and has not ended yet (state {row.state})"
        if refused:
            why = "belongs to another user, whom we may not signal"
        elif row.state == "D":
            why = "waits inside the kernel and hears no signal (state D)"
        command = self._table.command(row.pid)
        return f"pid {row.pid} ({program_name(command) if isinstance(command, str) else 'command not known'}) {why}"
