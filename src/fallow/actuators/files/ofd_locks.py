"""Take and read locks that the kernel frees however their holder ends.

These are open-file-description locks on single bytes. They belong to the open file, are inherited with it by fork
and exec, and end when its last copy is closed. A flock on the whole file would do that too, but it cannot be read
without taking it for a moment, which could make another launch fail. So only the gate of a folder is a flock.
"""

import fcntl
import struct

from fallow.core.annotations import Literal

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: type, whence, start, length, pid
_NO_PID = 0


def take(fd: int, byte: int, *, shared: bool = False) -> bool:
    """Lock one byte; return False if another process has it."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, 0, byte, 1, _NO_PID))
    except (BlockingIOError, PermissionError):  # POSIX allows both for a lock that is taken
        return False
    return True


def release(fd: int, byte: int) -> None:
    """Unlock one byte, also for every process that inherited it."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, byte, 1, _NO_PID))


def held(fd: int, byte: int) -> Literal["shared", "exclusive"] | None:
    """Return how another open file has locked a byte, or None. Takes nothing."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, 0, byte, 1, _NO_PID)
    kind = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0]
    if kind == fcntl.F_UNLCK:
        return None
    return "shared" if kind == fcntl.F_RDLCK else "exclusive"


def take_whole(fd: int) -> bool:
    """Lock a whole file or folder by flock; return False if another process has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
