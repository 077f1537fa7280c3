"""Run a job as our child, so that terminal, signals and exit code work as without fallow.

The job is in our process group, so what a terminal sends (Ctrl-C, Ctrl-Z, a new window size) reaches it directly. A
signal to fallow alone is forwarded. fallow stops when the job stops and ends as it ends. If fallow is killed, the
job goes on.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from fallow.actuators.process import signals, spawn
from fallow.actuators.process.held_signals import Arrived, HeldSignals
from fallow.actuators.process.signals import Handle
from fallow.actuators.process.tree import JobTree, Orphans
from fallow.core.errors import FallowError
from fallow.core.process import Ended, ProcessTable

# Not forwarded: signals about our own faults, those that cannot be caught, and those that a terminal sends to
# background processes that read or write it, which must stop us too.
_OUR_OWN = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS),
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ),
}
_HELD = frozenset(signal.valid_signals() - _OUR_OWN)
_END = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_LOOK_FOR_PARENT_S = 0.5
_GRACE_S = 10.0


class Supervision:
    """One job, from its start to its end."""

    def __init__(
        self,
        path: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        table: ProcessTable,
        monotonic_s: Callable[[], float],
        streams: Mapping[int, int] | None = None,
        ends_with_parent: bool = False,
    ) -> None:
        """Start the job; raise CannotRun if that fails.

        `streams`: what it gets for some of its first three descriptors. `ends_with_parent`: when the parent of this
        process ends, every process of the job gets SIGTERM, and SIGKILL 10 seconds later.
        """
        signals.demand_own_pids(table)
        self._parent = os.getppid() if ends_with_parent else None
        self._kill_at_s: float | None = None
        self.received: int | None = None
        """The last signal that asked this process to end."""
        self._table = table
        self._now = monotonic_s
        self._signals = HeldSignals(_HELD)
        try:
            orphans = Orphans(table)
            pid = spawn.start(path, command, environ, streams, blocked=self._signals.before)
        except BaseException:
            self._signals.release()
            raise
        self._job = _handle_of_child(table, pid)
        self.tree = JobTree(table, self._job.process, monotonic_s, orphans)

    def wait_for_job(self, timeout_s: float) -> Ended | None:
        """Wait until the job's first process has ended; None if it has not in time. Signals are forwarded."""
        is_over = self._attend_until(self._has_ended, timeout_s)
        return self.tree.ended if is_over else None

    def wait_for_tree(self, timeout_s: float) -> bool:
        """Wait until no process of the job is left; return whether that happened in time."""
        return self._attend_until(lambda: self.tree.ended is not None and not self.tree.living(), timeout_s)

    def _has_ended(self) -> bool:
        """Return whether its first process has ended; after the end of our parent, whether all have."""
        return self.tree.ended is not None and (self._kill_at_s is None or not self.tree.living())

    def close(self) -> None:
        """Stop watching; what is left of the job goes on."""
        self._job.close()
        self._signals.release()

    def _attend_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        until_s = self._now() + timeout_s
        while True:
            # The last process of a tree to end is always our child, so SIGCHLD comes.
            self.tree.reap()
            if done():
                return True
            self._stop_if_job_did()
            left_s = until_s - self._now()
            if left_s <= 0:
                return False
            if self._parent is not None:
                self._end_with_parent()
                left_s = min(left_s, _LOOK_FOR_PARENT_S)
            arrived = self._signals.fetch(left_s)
            if arrived is not None and arrived.number != signal.SIGCHLD:
                if arrived.number in _END:
                    self.received = arrived.number
                self._pass_on(arrived)

    def _end_with_parent(self) -> None:
        """Ask the whole job to end once our parent has ended, and kill what is left after the grace."""
        if os.getppid() == self._parent:
            return
        if self._kill_at_s is None:
            self._kill_at_s = self._now() + _GRACE_S
            self.tree.ask(signal.SIGTERM)
        elif self._now() >= self._kill_at_s:
            self.tree.kill(0.0)

    def _pass_on(self, arrived: Arrived) -> None:
        number = arrived.number
        if number == signal.SIGCONT and not self._is_stopped():
            return  # a signal that continued our group has continued the job
        if arrived.sender is not None:
            # A job that signals its group or its parent does not get the signal back.
            is_meant = not self.tree.has(arrived.sender)
        else:
            # A terminal that hangs up signals only the leader of the session, which would be the job without us.
            is_meant = number in (signal.SIGHUP, signal.SIGCONT) and os.getsid(0) == os.getpid()
        if is_meant:
            self._job.send(number)  # a setuid program such as sudo gets it from us no more than from its user

    def _stop_if_job_did(self) -> None:
        """Stop if the job has stopped, so that the shell takes the terminal back, until this process is continued."""
        if self.tree.ended is not None:
            return
        try:
            stopped = os.waitid(os.P_PID, self.tree.root.pid, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return  # it has just ended; the next reap sees that
        if stopped is None or not self._is_stopped():
            return
        # SIGSTOP may come from a person who will continue the job and not us. Only if a shell waits for us in
        # the foreground must we stop all the same; it can continue us.
        if stopped.si_status != signal.SIGSTOP or _in_foreground():
            signals.stop_self(stopped.si_status)

    def _is_stopped(self) -> bool:
        stat = self._table.stat(self.tree.root.pid)
        return stat is not None and stat.state == "T"


def end_as(ended: Ended) -> NoReturn:
    """End as the job ended, by the same signal if it was one: a shell script goes on after exit code 130, and stops
    after a death by SIGINT.
    """
    if ended.by_signal is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        signals.die_of(ended.by_signal)
    sys.exit(ended.exit_code)


def _handle_of_child(table: ProcessTable, pid: int) -> Handle:
    """Open a handle of our child. Only we can reap it, so its pid is valid even if it has ended."""
    stat = table.stat(pid)
    handle = None if stat is None else Handle.open(table, stat.process, ())
    if handle is None:
        raise FallowError(f"the job runs as pid {pid}, but /proc does not show it, so it cannot be watched")
    return handle


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
