"""The only file that signals.

A process is its pid and its birth. A signal goes through a pidfd, which is opened before the birth is checked:
whoever has the pid later, the signal cannot reach them. Some are never signalled, whoever asks for it: pid 0
and 1, fallow itself, and the processes that it descends from. Where /proc is that of another pid namespace its
numbers are not those that we signal by, so nobody is.
"""

import os
import select
import signal
from collections.abc import Collection, Container
from contextlib import suppress
from types import TracebackType

from fallow.core.errors import NotPermitted
from fallow.core.process import Process, ProcessTable

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def untouchable(table: ProcessTable) -> frozenset[int]:
    """The processes that fallow never signals."""
    me = os.getpid()
    return frozenset((0, 1, me, *table.ancestors(me)))


def demand_own_pids(table: ProcessTable) -> None:
    """Nobody is signalled, or started to be watched, by numbers that mean somebody else here."""
    why = table.whose_pids()
    if why is not None:
        raise NotPermitted(why)


class Handle:
    """One process, held by its pidfd: what is sent through it can reach nobody else."""

    def __init__(self, process: Process, fd: int) -> None:
        self.process = process
        self.fd = fd

    @classmethod
    def open(cls, table: ProcessTable, process: Process, never: Container[int]) -> "Handle | None":
        """None if the process is gone and its pid free, or somebody else's by now."""
        if process.pid in never:
            raise NotPermitted(f"fallow never signals pid {process.pid}: it is fallow's own, or one that it lives by")
        demand_own_pids(table)
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return None
        stat = table.stat(process.pid)
        if stat is None or stat.birth != process.birth:
            os.close(fd)
            return None
        return cls(process, fd)

    def send(self, number: int) -> bool:
        """Signal it; False if it has ended, PermissionError if it is not ours to signal."""
        try:
            signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            return False
        return True

    def may_signal(self) -> bool:
        """Whether it is ours to signal: signal 0 asks for the right, and reaches nobody."""
        try:
            self.send(0)
        except PermissionError:
            return False
        return True

    def ended(self) -> bool:
        """Whether all its threads have. /proc shows one whose first thread has ended as a zombie, though it lives."""
        return bool(wait_for_any([self], 0.0))

    def close(self) -> None:
        """Let go of it."""
        os.close(self.fd)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def wait_for_any(handles: list[Handle], timeout_s: float) -> bool:
    """Until one of these processes has ended, or the time is over; whether one has."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle.fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def kill_helper(leader: int) -> None:
    """Kill a child of ours that leads a group of its own, and its group. It is not reaped yet, so the pid is its."""
    os.killpg(leader, signal.SIGKILL)


def stop_self(number: int) -> None:
    """Stop as the signal stops whoever does not catch it; comes back when somebody continues us."""
    # Sent while it is blocked, it becomes one with what Ctrl-Z may have left waiting: we stop once, not twice.
    os.kill(os.getpid(), number)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_of(number: int) -> None:
    """Die of a signal, without a core file. Comes back where that cannot be, as in pid 1 of a container."""
    _prctl(_PR_SET_DUMPABLE, 0)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def signal_name(number: int) -> str:
    """SIGTERM for 15."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name of their own
        return f"signal {number}"


def adopt_orphans() -> None:
    """From now on whoever descends from us and loses its parent becomes our child, not that of pid 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """From now on SIGKILL comes when our parent ends; at once, if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def be_last(nice: int) -> None:
    """Take the CPU only when nobody else wants it, and be the first to go when memory runs out."""
    os.nice(nice)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def ask_group(leader: int, number: int) -> None:
    """Signal the group that a child of ours leads, all at once; who is stopped is continued, to hear it.

    It is not reaped yet, so the pid is its.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
        os.killpg(leader, signal.SIGCONT)


def _prctl(option: int, argument: int) -> None:
    import ctypes  # noqa: PLC0415  only those who supervise pay for it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def reap_strangers(known: Collection[int]) -> None:
    """Take the ends of children that nobody waits for: what a hook left running becomes ours when we adopt orphans.

    `known` are those that somebody does wait for. The kernel shows one end at a time, so behind one of theirs the
    others wait until that is taken.
    """
    with suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
