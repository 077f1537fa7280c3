"""Find the process that holds a claim, as the kernel shows it: a note in a file proves nothing.

A process holds a claim if it has the claim's file open, with the lock. Root sees that of every process, other users
only of their own.
"""

import os
from collections.abc import Iterator
from itertools import islice

from fallow.core.ports import Clock
from fallow.core.process import Process
from fallow.readers.proc import Proc

_SEARCHED_AGAIN_AFTER_S = 30.0
_MOST_DESCRIPTORS = 4096  # of a process
_MOST_READ = 4096  # of a descriptor: a launch has one lock in a file


class ClaimOwners:
    """Finds owners. It checks first who is named, then who was found before, and now and then everybody."""

    def __init__(self, proc: Proc, clock: Clock) -> None:
        self._proc = proc
        self._clock = clock
        self._found: dict[tuple[int, int], Process] = {}
        self._searched_s: dict[tuple[int, int], float] = {}

    def owner(self, fd: int, byte: int, named: Process | None) -> Process | None:
        """Return a process that holds the lock on a byte of an open file; None if none is seen."""
        facts = os.fstat(fd)
        file = facts.st_dev, facts.st_ino
        for process in (named, self._found.get(file)):
            if process is not None and self._has(process, fd, byte):
                return process
        now_s = self._clock.monotonic_s()
        if now_s - self._searched_s.get(file, float("-inf")) < _SEARCHED_AGAIN_AFTER_S:
            return None
        self._searched_s[file] = now_s
        for stat in self._proc.everybody():
            process = Process(stat.pid, stat.birth)
            if self._has(process, fd, byte):
                self._found[file] = process
                return process
        return None

    def _has(self, process: Process, fd: int, byte: int) -> bool:
        """Return whether this very process has the lock."""
        return any(_is_on(byte, info) for info in self._open(process.pid, fd)) and self._lives(process)

    def _open(self, pid: int, fd: int) -> Iterator[bytes]:
        """Yield what the kernel says of each descriptor of a process that is of the same file.

        The name is compared first: to ask for more of a file may wait for the server that has it.
        """
        root = self._proc.root
        try:
            name = os.path.basename(os.readlink(f"{root}/self/fd/{fd}"))
            with os.scandir(f"{root}/{pid}/fd") as entries:
                numbers = [entry.name for entry in islice(entries, _MOST_DESCRIPTORS)]
        except OSError:
            return
        for number in numbers:
            path = f"{root}/{pid}/fd/{number}"
            try:
                if os.path.basename(os.readlink(path)) == name and os.path.samestat(os.stat(path), os.fstat(fd)):
                    with open(f"{root}/{pid}/fdinfo/{number}", "rb", buffering=0) as file:
                        yield file.read(_MOST_READ) or b""
            except OSError:
                continue

    def _lives(self, process: Process) -> bool:
        stat = self._proc.stat(process.pid)
        return stat is not None and stat.birth == process.birth


def _is_on(byte: int, fdinfo: bytes) -> bool:
    """Return whether a descriptor has a lock on this byte: the line of a lock ends with its first and last byte."""
    only = [str(byte).encode()] * 2
    return any(line.startswith(b"lock:") and line.split()[-2:] == only for line in fdinfo.splitlines())
