"""Write to stderr from a thread, so that a reader that stopped reading (Ctrl-S, a full pipe) blocks nothing."""

import atexit
import os

from fallow.engine.machine.background import Background

_LAST_WORDS_S = 0.5


class StderrThread:
    """Keeps the last thousand messages for a slow reader; the others are lost."""

    def __init__(self, fd: int, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding
        self._lines = Background("the log", self._write, lambda _: None)
        self.say = self._lines.give
        """Put a line in the queue without waiting."""
        atexit.register(self.finish)

    def finish(self) -> None:
        """Write what is left, if the reader takes it in time."""
        self._lines.finish(_LAST_WORDS_S)

    def _write(self, line: str) -> None:
        try:
            rest = line.encode(self._encoding, "replace")
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:  # nobody reads it, which changes nothing
            pass
