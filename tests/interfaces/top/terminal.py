"""`fallow top` on a terminal of its own."""

import os
import select
import subprocess
import termios
import time
from collections.abc import Callable

from tests.conftest import Fallow
from tests.places import LIMIT_S

LEFT_ALTERNATE_SCREEN = b"\x1b[?1049l"
ENTERED_ALTERNATE_SCREEN = b"\x1b[?1049h"


class Terminal:
    """`fallow top` on a terminal of its own."""

    def __init__(self, fallow: Fallow, *words: str, **variables: str) -> None:
        self.ours, self.its = os.openpty()
        termios.tcsetwinsize(self.its, (24, 80))
        self.before = termios.tcgetattr(self.its)
        self.shown = b""
        self.process = subprocess.Popen(
            ["fallow", "top", *words],
            env={**fallow.environ, "TERM": "xterm-256color", **variables},
            stdin=self.its,
            stdout=self.its,
            stderr=self.its,
            start_new_session=True,
        )

    def until(self, is_so: Callable[[bytes], bool]) -> None:
        by_s = time.monotonic() + LIMIT_S
        while not is_so(self.shown):
            ready, _, _ = select.select([self.ours], [], [], max(0.0, by_s - time.monotonic()))
            assert ready, f"it never showed it: {self.shown!r}"
            self.shown += os.read(self.ours, 65536)

    def ended(self) -> int:
        """Read what comes until it has ended; its exit code."""
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.05)[0]:
                self.shown += os.read(self.ours, 65536)
        while select.select([self.ours], [], [], 0)[0]:
            self.shown += os.read(self.ours, 65536)
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        left = self.shown.rfind(LEFT_ALTERNATE_SCREEN)
        return left > self.shown.rfind(ENTERED_ALTERNATE_SCREEN) and termios.tcgetattr(self.its) == self.before

    def hang_up(self) -> None:
        """Take the terminal away. It is nobody's controlling terminal, so the kernel sends no SIGHUP."""
        os.close(self.its)
        os.close(self.ours)
        self.its = self.ours = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        if self.ours >= 0:
            os.close(self.ours)
            os.close(self.its)
