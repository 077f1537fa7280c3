"""Hold signals back until they are fetched, with their sender, through a descriptor of the kernel (signalfd).

Python's sigtimedwait is not used: where this process was stopped and continued while it waited, and its time was over
by then, it returns a signal that never came, of any number (seen with Python 3.11).
"""

import ctypes
import os
import select
import signal
import struct
from collections.abc import Set as AbstractSet

from fallow.core.value import value

_SET_BYTES = 128  # sigset_t of the C library, one bit for each signal from 1 on
_RECORD = struct.Struct("=IiiI112x")  # struct signalfd_siginfo: number, errno, code, pid


@value
class Arrived:
    """A signal that has come."""

    number: int
    sender: int | None
    """The pid of the process that sent it; None: the kernel, as for all that a terminal sends."""


class HeldSignals:
    """Signals to this process wait until they are fetched.

    Threads that were started before and do not block signals would still get them.
    """

    def __init__(self, held: AbstractSet[int]) -> None:
        self._fd = _open(held)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, held)

    def fetch(self, timeout_s: float) -> Arrived | None:
        """Return the next signal; None if none comes in time."""
        if not self._poll.poll(max(0.0, timeout_s) * 1000):
            return None
        try:
            number, _, code, pid = _RECORD.unpack(os.read(self._fd, _RECORD.size))
        except BlockingIOError:
            return None  # another thread has taken it
        return Arrived(number, pid if code <= 0 else None)

    def release(self) -> None:
        """Let signals act on this process again. Those that still wait were meant for the job, and are dropped."""
        while self.fetch(0.0) is not None:
            pass
        os.close(self._fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def _open(held: AbstractSet[int]) -> int:
    bits = sum(1 << (number - 1) for number in held)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.signalfd(-1, bits.to_bytes(_SET_BYTES, "little"), os.O_CLOEXEC | os.O_NONBLOCK))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd
