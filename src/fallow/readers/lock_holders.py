"""Find the process that holds a lock: one that has open the very file that the lock belongs to.

Any other pid, in a label or in the kernel's table of locks, may be that of a process that ended, and by now that of
another process. Root may look into all processes, other users only into their own.

Any user can open thousands of files and lock thousands of bytes. So a descriptor is read only if it is of that very
file, only the beginning of each process and descriptor is read, and a search that has used up its time continues at
the next look.
"""

import os
from collections.abc import Iterator
from itertools import islice

from fallow.core.ports import Clock
from fallow.core.process import Process
from fallow.core.value import value
from fallow.readers.lock_table import covers
from fallow.readers.proc import Proc

BRIEFLY_S, PATIENTLY_S = 0.02, 1.0
_EVERY_S = 1.0  # how long a search may take in each such stretch, for all files together
_STEPS_PER_S = 200_000
_REMEMBERED_S = 30.0
_MOST_DESCRIPTORS = 4096  # of a process, from the lowest on
_MOST_READ = 4096  # of a descriptor: a launch has four locks
_MOST_LOOKED_INTO = 16  # descriptors of one process that are of that file
_MOST_SEARCHES = 1024


@value
class Answer:
    """Which process holds the lock, if it was found; or whether no visible process does."""

    holder: Process | None = None
    nobody: bool = False
    """True if all processes were searched, and none has the file open."""


@value
class _Locked:
    """One byte of one file."""

    name: str
    device: int
    inode: int
    byte: int


class _Search:
    """The state of a search through the open files of all processes."""

    def __init__(self, named: Process | None, steps: "Iterator[tuple[Process, str] | None]") -> None:
        self.named = named
        self.steps = steps
        self.found: tuple[Process, str] | None = None
        self.ended_s: float | None = None


class LockHolders:
    """Finds holders. Remembers a holder, and checks it again each time; for some seconds also that there was none."""

    def __init__(self, proc: Proc, clock: Clock) -> None:
        self.limit_s = BRIEFLY_S
        """How long a search may take in each second; a command that looks only once can take longer."""
        self._proc, self._root = proc, proc.root
        self._clock = clock
        self._searches: dict[_Locked, _Search] = {}
        self._since_s, self._spent_s = float("-inf"), 0.0
        self._shut = False

    def holder(self, fd: int, byte: int, named: Process | None = None) -> Answer:
        """Return which process holds the lock on a byte of an open file; `named` is checked first."""
        locked = self._locked(fd, byte)
        if locked is None:
            return Answer()
        search = self._searches.get(locked)
        start_s = self._clock.monotonic_s()
        if search is not None and search.found is not None:
            if self._has(locked, *search.found):
                return Answer(search.found[0])
            search = None
        old = search is not None and search.ended_s is not None and start_s - search.ended_s >= _REMEMBERED_S
        if search is None or old or search.named != named:
            if len(self._searches) >= _MOST_SEARCHES:
                self._searches.clear()
            search = self._searches[locked] = _Search(named, self._steps(locked, named))
        self._go_on(search, start_s)
        if search.found is not None:
            return Answer(search.found[0])
        return Answer(nobody=search.ended_s is not None and self._sees_all())

    def _go_on(self, search: _Search, start_s: float) -> None:
        # One descriptor of a file with thousands of locks can take longer than the limit; then the search pauses.
        if start_s - self._since_s >= max(_EVERY_S, self._spent_s / self.limit_s):
            self._since_s, self._spent_s = start_s, 0.0
        left_s = self.limit_s - self._spent_s
        for _ in range(int(left_s * _STEPS_PER_S)):
            if search.found is not None or search.ended_s is not None:
                break
            try:
                search.found = next(search.steps)
            except StopIteration:
                search.ended_s = start_s
            if self._clock.monotonic_s() - start_s >= left_s:
                break
        self._spent_s += self._clock.monotonic_s() - start_s

    def _steps(self, locked: _Locked, named: Process | None) -> "Iterator[tuple[Process, str] | None]":
        first = [] if named is None else [named.pid]
        for pid in (*first, *self._proc.pids()):
            looked_into = 0
            for number in self._descriptors(pid):
                yield None
                if not self._is_of(locked, pid, number):
                    continue
                stat = self._proc.stat(pid)
                looked_into += 1
                if stat is not None and self._has(locked, Process(pid, stat.birth), number):
                    yield Process(pid, stat.birth), number
                if looked_into >= _MOST_LOOKED_INTO:
                    break
            yield None

    def _descriptors(self, pid: int) -> list[str]:
        try:
            with os.scandir(f"{self._root}/{pid}/fd") as entries:
                return [entry.name for entry in islice(entries, _MOST_DESCRIPTORS)]
        except PermissionError:
            self._shut = True
        except OSError:
            pass
        return []

    def _is_of(self, locked: _Locked, pid: int, number: str) -> bool:
        """Return whether a descriptor is of that file. Only one of its name is read: other file systems may hang."""
        path = f"{self._root}/{pid}/fd/{number}"
        try:
            if os.readlink(path).rpartition("/")[2] != locked.name:
                return False
            facts = os.stat(path)
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == (locked.device, locked.inode)

    def _has(self, locked: _Locked, process: Process, number: str) -> bool:
        """Return whether a descriptor of this very process has the lock."""
        if not self._lives(process) or not self._is_of(locked, process.pid, number):
            return False
        try:
            with open(f"{self._root}/{process.pid}/fdinfo/{number}", "rb", buffering=0) as file:
                raw = file.read(_MOST_READ) or b""
        except OSError:
            return False
        return covers(raw, locked.byte) and self._lives(process)

    def _lives(self, process: Process) -> bool:
        stat = self._proc.stat(process.pid)
        return stat is not None and stat.birth == process.birth

    def _locked(self, fd: int, byte: int) -> _Locked | None:
        try:
            facts = os.fstat(fd)
            path = os.readlink(f"{self._root}/self/fd/{fd}")
        except OSError:
            return None
        return _Locked(path.rpartition("/")[2], facts.st_dev, facts.st_ino, byte)

    def _sees_all(self) -> bool:
        """Return whether no process is hidden from us, so that a lock that none has open is hidden on purpose."""
        return os.geteuid() == 0 and not self._shut and not self._proc.in_pid_namespace_of_its_own()
