"""The owner's end of a filler: its keeper, the orders to it, and what it reports."""

import json
import os
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from fallow.actuators.process import signals, spawn
from fallow.actuators.process.tree import JobTree
from fallow.core.fillers import Presence
from fallow.core.process import Process, ProcessRow, ProcessTable

_LARGEST_REPORT = 65536
_ROUNDS = 20
_DIES_WITHIN_S = 2.0


class Filler:
    """One filler and its keeper, from the start until both are gone."""

    def __init__(
        self,
        keeper: Sequence[str],
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        first: Mapping[str, object],
        table: ProcessTable,
        monotonic_s: Callable[[], float],
        others: set[int],
    ) -> None:
        """`keeper` keeps, in `environ`; `first` is its first order, which says how the filler is to be.

        `others` are the children and sessions of ours that are no filler's, as time goes on: all keepers among them.
        """
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        """How it ended, in words."""
        self.notes: list[str] = []
        self.freed_s: float | None = None
        """When it said that all its memory was given back, if it did."""
        self._line, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.keeper = spawn.start_keeper(keeper[0], [*keeper, *command], environ, its.fileno())
        except OSError:
            self._line.close()
            raise
        finally:
            its.close()
        self._line.setblocking(False)
        self._table = table
        stat = table.stat(self.keeper)
        self._birth = 0 if stat is None else stat.birth
        self._others = others
        self._others.add(self.keeper)
        self._now = monotonic_s
        self._order(**first)

    @property
    def fd(self) -> int:
        """Becomes readable when there is something to hear."""
        return self._line.fileno()

    def ask(self, stay_s: float = 0.0) -> None:
        """Ask all its processes to leave; one that frees its memory first may stay so long without it."""
        self._order(do="ask", stay_s=stay_s)

    def kill(self) -> None:
        """Kill all its processes."""
        self._order(do="kill")

    def suspend(self, within_s: float) -> None:
        """Take it off its GPUs, in that time or not at all: then it is killed."""
        self._order(do="suspend", within_s=within_s)

    def resume(self, within_s: float) -> None:
        """Put it back. From now on it is on its GPUs, or about to be."""
        self.presence = Presence.RUNNING
        self._order(do="resume", within_s=within_s)

    def listen(self) -> None:
        """Take in what the keeper has reported."""
        while self.presence is not Presence.ABSENT:
            try:
                said = self._line.recv(_LARGEST_REPORT)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self._keeper_is_gone()
                return
            self._take_in(json.loads(said))

    def wait(self, timeout_s: float) -> None:
        """Until there is something to hear, or the time is over; and hear it."""
        listening = select.poll()  # select(2) knows no descriptor beyond 1023, and a daemon may have thousands
        listening.register(self.fd, select.POLLIN)
        listening.poll(max(0.0, timeout_s) * 1000)
        self.listen()

    def close(self) -> None:
        """Let go: it is gone, or suspended and to be left so."""
        self._line.close()
        with suppress(ChildProcessError):
            os.waitpid(self.keeper, 0 if self.presence is Presence.ABSENT else os.WNOHANG)
        self._others.discard(self.keeper)

    def _take_in(self, report: Mapping[str, str]) -> None:
        match report["now"]:
            case "running":
                self.presence = Presence.RUNNING
                self.pid = int(report["pid"])
            case "freed":
                self.freed_s = self._now()
            case "suspended":
                self.presence = Presence.SUSPENDED
            case "ended":
                self.presence = Presence.ABSENT
                self.ended = report["how"]
            case _:  # it was killed for a reason, somebody survives, or something should be known
                self.notes.append(report["why"])

    def kill_with_keeper(self) -> None:
        """Kill a keeper that does not answer, and the whole filler with it."""
        tree = JobTree(self._table, Process(self.keeper, self._birth), self._now)
        self.notes.extend(str(survivor) for survivor in tree.insist(_DIES_WITHIN_S))
        self._keeper_is_gone()

    def _keeper_is_gone(self) -> None:
        """It was killed. The filler's first process went with it; the others are our children once it has ended."""
        with suppress(ProcessLookupError):
            ended = os.pidfd_open(self.keeper)
            select.select([ended], [], [], _DIES_WITHIN_S)
            os.close(ended)
        for _ in range(_ROUNDS):  # who loses its parent in this becomes ours in the next round
            left = [row for row in self._table.everybody() if self._is_left_over(row)]
            for row in left:
                tree = JobTree(self._table, Process(row.pid, row.birth), self._now)
                self.notes.extend(str(survivor) for survivor in tree.insist())
                with suppress(ChildProcessError):
                    os.waitpid(row.pid, os.WNOHANG)
            if not left:
                break
        self.presence = Presence.ABSENT
        self.ended = "was killed together with its keeper"

    def _is_left_over(self, row: ProcessRow) -> bool:
        known = self._others | spawn.helpers
        return row.parent == os.getpid() and row.pid not in known and row.session not in known

    def _order(self, **what: object) -> None:
        with suppress(OSError):  # a keeper that is gone is noticed when it is listened to
            self._line.send(json.dumps(what).encode())


def adopt(table: ProcessTable) -> set[int]:
    """From now on the processes of a filler whose keeper was killed become ours; the children that we have before."""
    signals.adopt_orphans()
    return {row.pid for row in table.everybody() if row.parent == os.getpid()}
