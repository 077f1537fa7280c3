"""Take and read locks that the kernel frees however their holder ends.

These are open-file-description locks on single bytes. They belong to the open file, are inherited with it by fork
and exec, and end when its last copy is closed. A flock on the whole file would do that too, but it cannot be read
without taking it for a moment, which could make another launch fail.
"""

import fcntl
import struct

from fallow.core.value import value

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: type, whence, start, length, pid
_NO_PID = 0
_LAST_BYTE = 2**63 - 1


@value
class Lock:
    """A lock of another process."""

    shared: bool
    start: int
    last: int


def take(fd: int, byte: int, *, shared: bool = False) -> bool:
    """Lock one byte; return False if another process has it."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, 0, byte, 1, _NO_PID))
    except BlockingIOError:
        return False
    except PermissionError:  # POSIX allows EACCES for a lock that is taken
        return False
    return True


def release(fd: int, byte: int) -> None:
    """Unlock one byte, also for every process that inherited it."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, byte, 1, _NO_PID))


def other(fd: int, first: int, last: int) -> Lock | None:
    """Return one lock of another process among these bytes, or None. Takes nothing."""
    if last < first:
        return None
    asked = _FLOCK.pack(fcntl.F_WRLCK, 0, first, last - first + 1, _NO_PID)
    kind, _, start, length, _ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return None
    end = start + length - 1 if length else _LAST_BYTE
    return Lock(kind == fcntl.F_RDLCK, start, end)
