"""A program on a terminal of its own: what it shows there, and what a person types."""

import os
import select
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence

from tests.places import LIMIT_S


class Terminal:
    """The terminal, and the program that was started on it."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], *, stdout: int | None = None) -> None:
        """`stdout`: where its output goes, if that is not the terminal."""
        self.ours, self.its = os.openpty()
        termios.tcsetwinsize(self.its, (24, 80))
        self.before = termios.tcgetattr(self.its)
        self.shown = ""
        self.process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=self.its,
            stdout=self.its if stdout is None else stdout,
            stderr=self.its,
            start_new_session=True,
        )

    def until(self, is_so: str | Callable[[str], bool]) -> str:
        """Read on until this is shown; fail if nothing more comes."""
        while not (is_so in self.shown if isinstance(is_so, str) else is_so(self.shown)):
            assert select.select([self.ours], [], [], LIMIT_S)[0], f"it never showed it: {self.shown!r}"
            self._read()
        return self.shown

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def ended(self) -> int:
        """Read what comes until the program has ended; its exit code."""
        by_s = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < by_s, f"it has not ended: {self.shown!r}"
            if select.select([self.ours], [], [], 0.05)[0]:
                self._read()
        while select.select([self.ours], [], [], 0)[0]:
            self._read()
        return self.process.returncode

    def _read(self) -> None:
        self.shown += os.read(self.ours, 65536).decode(errors="replace")

    @property
    def is_as_before(self) -> bool:
        """Whether its settings are those from before the program."""
        return termios.tcgetattr(self.its) == self.before

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hang_up(self) -> None:
        """Take the terminal away. It is nobody's controlling terminal, so the kernel sends no SIGHUP."""
        os.close(self.its)
        os.close(self.ours)
        self.its = self.ours = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.ours >= 0:
            self.hang_up()
