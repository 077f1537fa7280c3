"""Says sentences in a thread of its own: whoever stopped reading, with Ctrl-S or a full pipe, stops nobody."""

import atexit
import os
import threading
from collections import deque

from fallow.engine.machine.lasting_thread import steady
from fallow.interfaces.render.ascii import encoded

_MOST = 1000
_LAST_WORDS_S = 0.5


class StderrThread:
    """Keeps the last thousand sentences for a reader who is slow; the others are lost."""

    def __init__(self, fd: int, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding
        self._waiting: deque[str] = deque(maxlen=_MOST)
        self._new = threading.Condition()
        self._busy = False
        steady("the log", self._speak, self._waiting.append)
        atexit.register(self.finish)

    def say(self, line: str) -> None:
        """Put it in line, and wait for nobody."""
        with self._new:
            self._waiting.append(line)
            self._new.notify_all()

    def finish(self) -> None:
        """Let what is left be said, if somebody listens."""
        with self._new:
            self._new.wait_for(lambda: not self._waiting and not self._busy, _LAST_WORDS_S)

    def _speak(self) -> None:
        while True:
            with self._new:
                self._new.wait_for(lambda: self._waiting)
                line, self._busy = self._waiting.popleft(), True
            try:
                rest = encoded(line, self._encoding)
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:  # nobody listens; that decides nothing
                pass
            with self._new:
                self._busy = False
                self._new.notify_all()
