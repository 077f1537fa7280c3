"""Typing into a real shell on a terminal, and reading what it runs."""

import os
import pathlib
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.places import LIMIT_S

READY = "<ready>"
_TELLS = """\
#!/bin/sh
printf 'told:'
printf '[%s]' "$@"
printf ':end\\n'
"""


class Shell:
    """A shell with a person at it."""

    def __init__(self, keyboard: int) -> None:
        self._keyboard = keyboard
        self._seen = ""
        self._from = 0

    def type(self, line: str, *, answer: str = ":end") -> str:
        """Type a line, wait for what the program says, and return it."""
        self._wait_for(READY)
        os.write(self._keyboard, line.encode() + b"\n")
        return self._wait_for(answer)

    def _wait_for(self, text: str) -> str:
        by_s = time.monotonic() + LIMIT_S
        while (at := self._seen.find(text, self._from)) < 0:
            assert time.monotonic() < by_s, f"it never said {text!r}: {self._seen!r}"
            if select.select([self._keyboard], [], [], 0.05)[0]:
                self._seen += os.read(self._keyboard, 4096).decode(errors="replace")
        said, self._from = self._seen[self._from : at], at + len(text)
        return said.rpartition("told:")[2]


@contextmanager
def shell(command: list[str], environ: dict[str, str]) -> Iterator[Shell]:
    """A shell on a terminal of its own; its prompt must be READY."""
    keyboard, terminal = os.openpty()
    with subprocess.Popen(
        ["setsid", "-c", *command], stdin=terminal, stdout=terminal, stderr=terminal, env=environ, close_fds=True
    ) as process:
        os.close(terminal)
        try:
            yield Shell(keyboard)
        finally:
            os.close(keyboard)  # hangs up
            process.kill()


def program_that_tells(path: pathlib.Path) -> None:
    """Write a program that only says which words it was given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_TELLS)
    path.chmod(0o755)
