"""The whole tree of a job: its first process, all below it, and those that left it by setsid or a double fork.

Who supervises a job is the subreaper of all that it starts: a process whose parent ends becomes our child, so
nobody of the job can get out of sight. Orphans come without a word of whom they descend from; all are the job's
as long as nobody else could have started them. One process therefore supervises one job.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain

from fallow.actuators.process import signals
from fallow.actuators.process.signals import Handle
from fallow.core.process import (
    Ended,
    Process,
    ProcessRow,
    ProcessTable,
)
from fallow.core.units import program_name
from fallow.core.value import value

_ROUND_S = 0.05
_WATCHED = 64  # so many of the killed are waited for at once: descriptors are few, and a storm is large
_STOPPED = "Tt"
_DEAD = "ZX"


@value
class Survivor:
    """A process of the job that could not be ended. One that was never caught sight of has no pid."""

    pid: int | None
    command: str
    why: str

    def __str__(self) -> str:
        return f"{self.command} {self.why}" if self.pid is None else f"pid {self.pid} ({self.command}) {self.why}"


_UNSEEN = Survivor(None, "a process of the job", "forks and ends faster than it can be found")


class Orphans:
    """Which of the processes that come to us when their parents end are the job's. Made before the job starts."""

    def __init__(self, table: ProcessTable, helper_sessions: Collection[int]) -> None:
        signals.adopt_orphans()
        self._me = os.getpid()
        self._helper_sessions = helper_sessions
        # A shell that became fallow by `exec` leaves it its children; pid 1 of a container gets everybody's orphans.
        others = any(row.parent == self._me for row in table.everybody())
        self._only_the_job_has_any = self._me != 1 and not others

    @property
    def all_are_of_job(self) -> bool:
        """Whether we have no children but the job's."""
        return self._only_the_job_has_any and not self._helper_sessions

    def of_job(self, row: ProcessRow) -> bool:
        """Whether a process that was not seen before is an orphan of the job."""
        return row.parent == self._me and self._only_the_job_has_any and row.session not in self._helper_sessions


class JobTree:
    """All processes of one job."""

    def __init__(
        self,
        table: ProcessTable,
        root: Process,
        monotonic_s: Callable[[], float],
        orphans: Orphans | None = None,
        spare: Callable[[ProcessRow], bool] = lambda _: False,
    ) -> None:
        """`orphans` is None for a process that we did not start: those that leave its tree unseen are not ours.

        `spare`: processes below it that are left alone, since they are not the job's owner's.
        """
        self.root = root
        self.ended: Ended | None = None
        self._table = table
        self._now = monotonic_s
        self._orphans = orphans
        self._spare = spare
        self._known = frozenset((root,))

    def has(self, pid: int) -> bool:
        """Whether a process is the job's. Looks at it and its ancestors only, so it can be asked at every tick."""
        for above in chain((pid,), self._table.ancestors(pid)):
            row = self._table.stat(above)
            if row is None:
                return False
            if self._is_ours(row):
                return True
        return False

    def living(self) -> list[ProcessRow]:
        """All that live, parents before their children."""
        members = [row for row in self._members() if row.state not in _DEAD or not self._has_ended(row)]
        return [row for row in members if not self._spare(row)]

    def ask(self, number: int, but_not_group: int | None = None) -> int:
        """Send everybody a signal, children first; how many got it. Who is stopped is continued, to hear it.

        `but_not_group`: a process group that has got it already.
        """
        asked = 0
        for row, handle in self._handles(row for row in reversed(self.living()) if row.group != but_not_group):
            try:
                asked += handle.send(number)
                if row.state in _STOPPED:
                    handle.send(signal.SIGCONT)
            except PermissionError:
                continue  # a program of another user, which the job started through sudo
        return asked

    def insist(self, limit_s: float = 5.0) -> tuple[Survivor, ...]:
        """SIGKILL, again and again, until nobody is left or the time is over; who is left."""
        until_s = self._now() + limit_s
        while True:
            self.reap()
            living = self.living()
            if not living and self._is_empty():
                return ()
            left_s = until_s - self._now()
            refused = self._kill(living)
            if left_s <= 0 or (living and len(refused) == len(living)):
                return tuple(self._survivor(row, row.pid in refused) for row in living) or (_UNSEEN,)
            self._wait_for_one_of(living, min(_ROUND_S, left_s))

    def reap(self) -> None:
        """Take the end of every child that has ended: the job's first process is remembered, orphans are not."""
        if self._orphans is None:
            return
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                return
            if child is None:
                return
            if child.si_pid == self.root.pid and self.ended is None:
                exited = child.si_code == os.CLD_EXITED
                self.ended = Ended(code=child.si_status) if exited else Ended(by_signal=child.si_status)

    def _members(self) -> list[ProcessRow]:
        rows = self._table.everybody()
        children: dict[int, list[ProcessRow]] = {}
        for row in rows:
            children.setdefault(row.parent, []).append(row)
        ours = [row for row in rows if self._is_ours(row)]
        pids = {row.pid for row in ours}
        todo = deque(row for row in ours if row.parent not in pids)
        found: list[ProcessRow] = []
        while todo:
            row = todo.popleft()
            found.append(row)
            todo.extend(children.get(row.pid, ()))
        # Who has been seen in the tree is known, also when it is somebody else's child by the next look.
        self._known = frozenset((self.root, *map(_identity, found)))
        return found

    def _is_ours(self, row: ProcessRow) -> bool:
        return _identity(row) in self._known or (self._orphans is not None and self._orphans.of_job(row))

    def _has_ended(self, row: ProcessRow) -> bool:
        handle = Handle.open(self._table, _identity(row), ())
        if handle is None:
            return True
        with handle:
            return handle.ended()

    def _is_empty(self) -> bool:
        """Whether a look that found nobody is to be believed: who forks and ends at once can slip through it."""
        if self._orphans is None or not self._orphans.all_are_of_job:
            return True
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # no child at all, so nobody below either
            return True
        return False

    def _kill(self, living: Sequence[ProcessRow]) -> set[int]:
        """One round, parents first: who starts its children anew must go before them. Who may not be signalled."""
        refused = set()
        for row, handle in self._handles(living):
            try:
                handle.send(signal.SIGKILL)
            except PermissionError:
                refused.add(row.pid)
        return refused

    def _wait_for_one_of(self, living: Sequence[ProcessRow], timeout_s: float) -> None:
        with ExitStack() as stack:
            opened = (Handle.open(self._table, _identity(row), ()) for row in living[:_WATCHED])
            handles = [stack.enter_context(handle) for handle in opened if handle is not None]
            if len(handles) == len(living[:_WATCHED]):  # else one has ended already
                signals.wait_for_any(handles, timeout_s)

    def _handles(self, rows: Iterable[ProcessRow]) -> Iterator[tuple[ProcessRow, Handle]]:
        """Each of the processes that is still itself, held for a moment."""
        never = signals.untouchable(self._table)
        for row in rows:
            handle = Handle.open(self._table, _identity(row), never)
            if handle is not None:
                with handle:
                    yield row, handle

    def _survivor(self, row: ProcessRow, refused: bool) -> Survivor:
        command = self._table.command(row.pid)
        name = program_name(command) if isinstance(command, str) else "command not known"
        if refused:
            return Survivor(row.pid, name, "belongs to another user, whom we may not signal")
        if row.state == "D":
            return Survivor(row.pid, name, "waits inside the kernel and hears no signal (state D)")
        return Survivor(row.pid, name, f"was killed and has not ended yet (state {row.state})")


def _identity(row: ProcessRow) -> Process:
    return Process(row.pid, row.birth)
