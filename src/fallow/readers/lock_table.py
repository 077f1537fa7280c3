"""Read the kernel's table of locks, /proc/locks, which every user may read.

For a lock that belongs to an open file, such as a claim, it names no process. For others it names the process that
took the lock. That process may have ended, and its pid may belong to another one. So the table proves that there is
a lock, and not whose (see lock_holders).
"""

from collections.abc import Iterable, Iterator

from fallow.core.value import value
from fallow.readers.proc import Proc

_LAST_BYTE = 2**63 - 1
_MOST_READ = 2**24
_BY_FLOCK = "FLOCK"
_BY_OPEN_FILE = "OFDLCK"
_COLUMNS = 8  # number, kind, ADVISORY, READ or WRITE, pid, device and inode, first byte, last byte


@value
class HeldLock:
    """One lock; its pid is -1 if it belongs to an open file."""

    kind: str
    shared: bool
    pid: int
    inode: int
    start: int
    last: int


class LockTable:
    """The table as it is now. Any user can make it long, so lines are found as bytes, and only those are parsed."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        try:
            with open(f"{proc.root}/locks", "rb") as file:
                self._lines = file.read(_MOST_READ).split(b"\n")
        except OSError:
            self._lines = []

    def signers(self, inode: int) -> frozenset[int]:
        """Return the processes that have signed a file with a flock."""
        locks = self._with(f":{inode} ")
        return frozenset(lock.pid for lock in locks if lock.kind == _BY_FLOCK and lock.inode == inode)

    def elsewhere(self, byte: int, inode: int) -> HeldLock | None:
        """Return a lock of an open file on exactly this byte of another file than this one; None if there is none."""
        for lock in self._with(f" {byte} {byte}"):
            if lock.kind == _BY_OPEN_FILE and lock.start == lock.last == byte and lock.inode != inode:
                return lock
        return None

    def _with(self, words: str) -> Iterator[HeldLock]:
        wanted = words.encode()
        return _parsed(line for line in self._lines if wanted in line)


def covers(fdinfo: bytes, byte: int) -> bool:
    """Return whether a descriptor has a lock on a byte of its file, according to its fdinfo."""
    lines = (line.removeprefix(b"lock:") for line in fdinfo.split(b"\n") if line.startswith(b"lock:"))
    return any(lock.kind != _BY_FLOCK and lock.start <= byte <= lock.last for lock in _parsed(lines))


def _parsed(lines: Iterable[bytes]) -> Iterator[HeldLock]:
    for line in lines:
        words = line.decode("ascii", "replace").split()
        if len(words) != _COLUMNS:  # a process that waits for a lock has one more
            continue
        try:
            inode, first = int(words[5].rpartition(":")[2]), int(words[6])
            last = _LAST_BYTE if words[7] == "EOF" else int(words[7])
            yield HeldLock(words[1], words[3] == "READ", int(words[4]), inode, first, last)
        except ValueError:
            continue
