"""The kernel's table of locks: who holds what on which file, whatever any file says.

/proc/locks is everybody's to read. It names the process for every kind of lock but the one that claims are made of,
which belongs to an open file and to whoever inherited it. Those processes are found by their open files, as far as
they are ours to look into: root finds all, others find their own.
"""

import os
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
    """One lock; the pid is -1 where the lock belongs to an open file."""

    kind: str
    shared: bool
    pid: int
    inode: int
    start: int
    last: int


class LockTable:
    """The table as it is now. Anybody can make it long: lines are looked for as bytes, and only those are parsed."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        try:
            with open(f"{proc.root}/locks", "rb") as file:
                self._lines = file.read(_MOST_READ).splitlines()
        except OSError:
            self._lines = []

    def signers(self, inode: int) -> frozenset[int]:
        """The processes that have signed a file with a flock."""
        return frozenset(lock.pid for lock in self._with(f":{inode} ") if _is(lock, _BY_FLOCK, inode))

    def elsewhere(self, byte: int, inode: int) -> HeldLock | None:
        """A lock by an open file on exactly this byte, of another file than this one."""
        for lock in self._with(f" {byte} {byte}"):
            if lock.kind == _BY_OPEN_FILE and lock.start == lock.last == byte and lock.inode != inode:
                return lock
        return None

    def _with(self, words: str) -> Iterator[HeldLock]:
        wanted = words.encode()
        return _parsed(line for line in self._lines if wanted in line)

    def holder(self, inode: int, byte: int) -> int | None:
        """The pid of a process that holds a lock on this byte; None if none is found that we may look into."""
        candidates = self._with(f":{inode} ")
        named = next((lock.pid for lock in candidates if lock.pid > 0 and _covers(lock, inode, byte)), None)
        return named if named is not None else next(self._by_open_files(inode, byte), None)

    def _by_open_files(self, inode: int, byte: int) -> Iterator[int]:
        for pid in self._proc.pids():
            folder = f"{self._proc.root}/{pid}/fdinfo"
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            if any(_has_lock(f"{folder}/{name}", inode, byte) for name in names):
                yield pid


def _has_lock(path: str, inode: int, byte: int) -> bool:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    if b"lock:" not in raw:
        return False
    lines = (line.removeprefix(b"lock:") for line in raw.splitlines() if line.startswith(b"lock:"))
    return any(_covers(lock, inode, byte) for lock in _parsed(lines))


def _is(lock: HeldLock, kind: str, inode: int) -> bool:
    return lock.kind == kind and lock.inode == inode


def _covers(lock: HeldLock, inode: int, byte: int) -> bool:
    return lock.kind != _BY_FLOCK and lock.inode == inode and lock.start <= byte <= lock.last


def _parsed(lines: Iterable[bytes]) -> Iterator[HeldLock]:
    for line in lines:
        words = line.decode("ascii", "replace").split()
        if len(words) != _COLUMNS:  # those who wait for a lock have one more
            continue
        try:
            inode, first = int(words[5].rpartition(":")[2]), int(words[6])
            last = _LAST_BYTE if words[7] == "EOF" else int(words[7])
            yield HeldLock(words[1], words[3] == "READ", int(words[4]), inode, first, last)
        except ValueError:
            continue
