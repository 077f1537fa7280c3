"""The only file that sends signals.

A process is identified by its pid and its birth. A signal goes through a pidfd, which is opened before the birth is
checked, so it cannot reach another process that gets the pid later. The group of a child of our own is signalled by
its number, which nobody else gets before the child is reaped. Some processes are never signalled: pid 0 and 1,
fallow itself, and its ancestors. If /proc is that of another pid namespace, its pids cannot be used for signals, and
nothing is signalled.
"""

import os
import select
import signal
from collections.abc import Container
from contextlib import suppress
from types import TracebackType

from fallow.core.errors import NotPermitted
from fallow.core.process import Ended, Pidfds, Process, ProcessTable

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def untouchable(table: ProcessTable) -> frozenset[int]:
    """Return the processes that fallow never signals."""
    me = os.getpid()
    return frozenset((0, 1, me, *table.ancestors(me)))


def demand_own_pids(table: ProcessTable) -> None:
    """Raise NotPermitted if the pids in /proc mean other processes here, so that no wrong one is signalled."""
    why = table.whose_pids()
    if why is not None:
        raise NotPermitted(why)


class KernelPidfds:
    """The pidfds of the kernel."""

    open = staticmethod(os.pidfd_open)
    send = staticmethod(signal.pidfd_send_signal)


_KERNEL = KernelPidfds()


class Handle:
    """The pidfd of one process: a signal sent through it can reach no other."""

    def __init__(self, process: Process, fd: int, pidfds: Pidfds) -> None:
        self.process = process
        self.fd = fd
        self._pidfds = pidfds

    @classmethod
    def open(cls, table: ProcessTable, process: Process, never: Container[int]) -> "Handle | None":
        """Open a handle; None if the process has ended, or its pid belongs to another one."""
        if process.pid in never:
            raise NotPermitted(f"fallow never signals pid {process.pid}: it is fallow's own, or one that it lives by")
        demand_own_pids(table)
        pidfds = table.pidfds or _KERNEL
        try:
            fd = pidfds.open(process.pid)
        except ProcessLookupError:
            return None
        stat = table.stat(process.pid)
        if stat is None or stat.birth != process.birth:
            os.close(fd)
            return None
        return cls(process, fd, pidfds)

    def send(self, number: int) -> bool:
        """Signal the process; return False if it has ended, or belongs to another user."""
        try:
            self._pidfds.send(self.fd, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def may_signal(self) -> bool:
        """Return whether we may signal it: signal 0 only checks the right."""
        return self.send(0) or self.ended()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended, with all its threads, or the time is over; return whether it has."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_s) * 1000))

    def ended(self) -> bool:
        """Return whether the process has ended, with all its threads."""
        return self.wait(0.0)

    def close(self) -> None:
        """Close the handle."""
        os.close(self.fd)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def signal_group(leader: int, number: int) -> None:
    """Signal the group that our child leads, all at once; stopped processes are continued, so that they handle it.

    The child is not reaped yet, so its pid is valid. Processes that became root may get nothing.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
        os.killpg(leader, signal.SIGCONT)


def stop_self(number: int) -> None:
    """Stop this process as the signal would; returns when it is continued."""
    # Sent while it is blocked, it merges with one that Ctrl-Z may have left waiting: we stop once, not twice.
    os.kill(os.getpid(), number)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_of(number: int) -> None:
    """Die of a signal, without a core file. Returns if that is impossible, as for pid 1 of a container."""
    _prctl(_PR_SET_DUMPABLE, 0)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def how_it_ended(ended: Ended) -> str:
    """Return how a process ended: `ended with exit code 1`, or `died of SIGTERM`."""
    if ended.by_signal is None:
        return f"ended with exit code {ended.code}"
    try:
        return f"died of {signal.Signals(ended.by_signal).name}"
    except ValueError:  # most real-time signals have no name
        return f"died of signal {ended.by_signal}"


def adopt_orphans() -> None:
    """Become a subreaper: descendants that lose their parent become our children, not those of pid 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when our parent ends; at once if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def be_last(nice: int) -> None:
    """Use the CPU only when no other process needs it, and be killed first when memory runs out."""
    os.nice(nice)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _prctl(option: int, argument: int) -> None:
    import ctypes  # noqa: PLC0415  loaded only to supervise

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
