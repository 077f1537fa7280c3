"""`fallow fill` under the eyes of a test: what it says, in order, and the processes that it runs."""

import os
import pathlib
import select
import subprocess
import time
from collections.abc import Iterable

from fallow.readers.proc import Proc
from tests.places import LIMIT_S


class Fill:
    """A running `fallow fill`; what it has said so far is kept."""

    def __init__(self, process: subprocess.Popen[str], *, on_stdout: bool = False) -> None:
        self.process = process
        self._stream = process.stdout if on_stdout else process.stderr
        self.said: list[str] = []

    def until(self, words: str, times: int = 1, *, limit_s: float = LIMIT_S) -> str:
        """Read on until a line holds these words, as often as that; the last such line. So long, and no longer."""
        by_s = time.monotonic() + limit_s
        while line := self._line(by_s, words):
            self.said.append(line.rstrip("\n"))
            if words in line:
                times -= 1
                if times == 0:
                    return self.said[-1]
        raise AssertionError(f"it ended without saying {words!r}; it said {self.said}")

    def _line(self, by_s: float, words: str) -> str:
        """The next line, and no byte of the one behind it: whoever reads on after us misses nothing."""
        assert self._stream is not None
        fd, line = self._stream.fileno(), bytearray()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([fd], [], [], max(0.0, by_s - time.monotonic()))
            assert ready, f"it has not said {words!r} in time; it said {[*self.said, line.decode(errors='replace')]}"
            byte = os.read(fd, 1)
            if not byte:
                break
            line += byte
        return line.decode(errors="replace")

    def told(self, words: str) -> list[str]:
        """The lines so far that hold these words."""
        return [line for line in self.said if words in line]


def pids_written(path: pathlib.Path) -> list[int]:
    """The pids that fillers have appended to a file, one a line."""
    return [int(word) for word in path.read_text().split()]


def wait_for_end(pids: Iterable[int]) -> None:
    """Until these processes have ended, which they must."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ready, _, _ = select.select([fd], [], [], LIMIT_S)
            assert ready, f"pid {pid} is still there"
        finally:
            os.close(fd)


def wait_for_lines(path: pathlib.Path, count: int) -> list[str]:
    """Until a file has so many lines; a writer's close is the event."""
    from inotify_simple import INotify, flags

    with INotify() as inotify:
        inotify.add_watch(path.parent, flags.CLOSE_WRITE | flags.MODIFY)
        while True:
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count:
                return lines
            assert inotify.read(timeout=LIMIT_S * 1000), f"{path} has only {lines}"


def _is(command: str, words: str) -> bool:
    """Whether it is that program itself, and not the keeper that starts it."""
    return words in command and "fallow.engine.fill.keeper" not in command


def until_there(pid: int, words: str, times: int = 1) -> None:
    """Until so many processes below this one have these words in their command lines."""
    proc, limit_s = Proc(), time.monotonic() + LIMIT_S
    while sum(_is(str(proc.command(below.pid)), words) for below in proc.descendants(pid)) < times:
        assert time.monotonic() < limit_s, f"nobody below pid {pid} is {words}"
        time.sleep(0.01)
