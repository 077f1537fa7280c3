"""Pass on what ssh writes, and find in it the word by which the other host says that it refused the launch.

An exit code alone cannot tell that: the command may end with the same one, and would then be run twice.
"""

import os
import select
from contextlib import suppress
from threading import Thread

_CHUNK_BYTES = 64 * 1024
_LETTERS = 16
_TAIL_BYTES = 4096


def new_word() -> str:
    """Return a word that nothing else writes."""
    return f"fallow-refused-{os.urandom(_LETTERS).hex()}"


class WordFilter:
    """Takes the word out of a stream of bytes; holds back no more than what may be its beginning."""

    def __init__(self, word: str) -> None:
        self._word = word.encode()
        self._held = b""
        self.seen = False

    def pass_on(self, chunk: bytes) -> bytes:
        """Return what can be shown by now. After the word nothing is: it is the last that fallow there writes."""
        if self.seen:
            return b""
        text = self._held + chunk
        at = text.find(self._word)
        if at >= 0:
            self.seen, self._held = True, b""
            return text[:at]
        kept = next(
            (size for size in range(min(len(self._word), len(text)), 0, -1) if text.endswith(self._word[:size])), 0
        )
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        return self._held


class Copier:
    """A thread that copies a pipe to a descriptor through a filter, until the pipe or the program has ended."""

    def __init__(self, source: int, target: int, word: WordFilter) -> None:
        self._source = source
        self._target = target
        self._word = word
        self._tail = b""
        self._over, self._tell = os.pipe()
        self._thread = Thread(target=self._run, name="copy of ssh's messages", daemon=True)

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def finish(self) -> None:
        """Copy what is in the pipe, and end: a shared connection may keep the pipe open."""
        os.write(self._tell, b".")
        self._thread.join()
        for fd in (self._source, self._over, self._tell):
            os.close(fd)

    def last_line(self) -> str:
        """Return the last line that was copied, after the end; empty if there was none."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def _run(self) -> None:
        os.set_blocking(self._source, False)
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        with suppress(OSError):  # nobody reads our output any more
            while self._copy() and self._over not in [fd for fd, _ in poll.poll()]:
                pass
            self._copy()
            _write(self._target, self._word.rest())

    def _copy(self) -> bool:
        """Copy what is there now; return False once the pipe is closed."""
        while True:
            try:
                chunk = os.read(self._source, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            shown = self._word.pass_on(chunk)
            self._tail = (self._tail + shown)[-_TAIL_BYTES:]
            _write(self._target, shown)


def _write(fd: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(fd, content) :]
        except BlockingIOError:  # a terminal that another program made so
            select.select([], [fd], [])
