"""Find the process that holds a claim, as the kernel shows it: a note in a file proves nothing.

A process holds a claim if it has the claim's file open, with the lock. Root sees that of every process, other users
only of their own.
"""

import os
from contextlib import suppress

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
        asked = [process for process in (named, self._found.get(file)) if process is not None]
        now_s = self._clock.monotonic_s()
        found = next((process for process in asked if self._has(process, fd, byte)), None)
        if found is None and now_s - self._searched_s.get(file, float("-inf")) >= _SEARCHED_AGAIN_AFTER_S:
            self._searched_s[file] = now_s
            everybody = (Process(stat.pid, stat.birth) for stat in self._proc.everybody())
            found = next((process for process in everybody if self._has(process, fd, byte)), None)
        if found is not None:
            self._found[file] = found
        return found

    def _has(self, process: Process, fd: int, byte: int) -> bool:
        """Return whether this very process has the lock.

        Names are compared first: to ask for more of a file may wait for the server that has it.
        """
        root, line = self._proc.root, f"{byte} {byte}"
        with suppress(OSError):
            name = os.path.basename(os.readlink(f"{root}/self/fd/{fd}"))
            for number in os.listdir(f"{root}/{process.pid}/fd")[:_MOST_DESCRIPTORS]:
                path = f"{root}/{process.pid}/fd/{number}"
                with suppress(OSError):
                    if os.path.basename(os.readlink(path)) != name or not os.path.samestat(
                        os.stat(path), os.fstat(fd)
                    ):
                        continue
                    with open(f"{root}/{process.pid}/fdinfo/{number}", "rb", buffering=0) as file:
                        locks = (file.read(_MOST_READ) or b"").decode(errors="replace").splitlines()
                    if any(lock.startswith("lock:") and lock.endswith(f" {line}") for lock in locks):
                        stat = self._proc.stat(process.pid)
                        return stat is not None and stat.birth == process.birth
        return False
