"""Control a filler through its keeper process: orders to it, and what it reports."""

import errno
import json
import os
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fallow.actuators.process import signals, spawn
from fallow.actuators.process.tree import JobTree
from fallow.core.fillers import Presence
from fallow.core.process import Process, ProcessTable

LARGEST_ORDER = 65536
"""The most bytes that a keeper reads of an order."""
_LARGEST_REPORT = 65536
_DIES_WITHIN_S = 2.0  # unless it is blocked in the kernel, as by a GPU that hangs


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
    ) -> None:
        """`keeper` is its command, run in `environ`; `first` is its first order, which describes the filler."""
        self.presence = Presence.RUNNING
        self.pid: int | None = None
        self.ended: str | None = None
        """How the filler ended, in words."""
        self.notes: list[str] = []
        if len(json.dumps(first)) > LARGEST_ORDER:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
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
        self._now = monotonic_s
        self._order(**first)

    @property
    def fd(self) -> int:
        """Return the descriptor that becomes readable when the keeper has reported something."""
        return self._line.fileno()

    def ask(self) -> None:
        """Ask all its processes to leave."""
        self._order(do="ask")

    def kill(self) -> None:
        """Kill all its processes."""
        self._order(do="kill")

    def suspend(self, within_s: float) -> None:
        """Suspend the filler; it is killed if that takes longer than `within_s`."""
        self._order(do="suspend", within_s=within_s)

    def resume(self, within_s: float) -> None:
        """Resume it. From now on it counts as on its GPUs."""
        self.presence = Presence.RUNNING
        self._order(do="resume", within_s=within_s)

    def listen(self) -> None:
        """Read what the keeper has reported."""
        while self.presence is not Presence.ABSENT:
            try:
                said = self._line.recv(_LARGEST_REPORT)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self.kill_with_keeper()
                return
            self._take_in(json.loads(said))

    def wait(self, timeout_s: float) -> None:
        """Wait until the keeper reports something or the time is over, and read it."""
        listening = select.poll()  # select(2) cannot take descriptors beyond 1023, and a daemon may have thousands
        listening.register(self.fd, select.POLLIN)
        listening.poll(max(0.0, timeout_s) * 1000)
        self.listen()

    def close(self) -> None:
        """Close the connection: the filler has ended, or stays suspended."""
        if self.presence is Presence.ABSENT:
            self._keeper_ends_within(_DIES_WITHIN_S)
        with suppress(ChildProcessError):
            os.waitpid(self.keeper, os.WNOHANG)
        self._line.close()

    def _keeper_ends_within(self, seconds: float) -> bool:
        keeper = signals.Handle.open(self._table, Process(self.keeper, self._birth), ())
        if keeper is None:
            return True
        with keeper:
            signals.wait_for_any([keeper], seconds)
            return keeper.ended()

    def _take_in(self, report: Mapping[str, Any]) -> None:
        match report["now"]:
            case "running":
                self.presence = Presence.RUNNING
                self.pid = int(report["pid"])
            case "suspended":
                self.presence = Presence.SUSPENDED
            case "ended":
                self.presence = Presence.ABSENT
                self.ended = report["how"]
                self.notes.extend(report["survivors"])
            case _:  # it was killed for a reason, or there is something to report
                self.notes.append(report["why"])

    def kill_with_keeper(self) -> None:
        """Kill the keeper and all below it, and wait for nothing.

        If the keeper is gone already, the kernel has killed the filler's first process, and no other is found.
        """
        JobTree(self._table, Process(self.keeper, self._birth), self._now).kill(0.0)
        self.presence = Presence.ABSENT
        self.ended = "was killed together with its keeper"

    def _order(self, **what: object) -> None:
        with suppress(OSError):  # a keeper that has ended is noticed when its reports are read
            self._line.send(json.dumps(what).encode())
