"""Being asked through a door to load the config anew: from the door's thread to the loop, and back with an answer."""

import os
from collections import deque
from contextlib import suppress

from fallow.core.mistake import Mistake
from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future


@value
class Reloaded:
    """What came of it: loaded, or why not, with every mistake of the config."""

    ok: bool
    sentence: str
    file: str | None = None
    mistakes: tuple[Mistake, ...] = ()


class Reloads:
    """Who waits for it. `ask` is for any thread, all else for the one with the loop."""

    def __init__(self) -> None:
        self.fd, self._bell = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._bell, False)
        self._waiting: deque[Future[Reloaded]] = deque()

    def ask(self) -> "Future[Reloaded]":
        """What will come of it, once the loop has done it."""
        from concurrent.futures import Future  # does not load where Python cannot count the time

        waiting: Future[Reloaded] = Future()
        self._waiting.append(waiting)
        with suppress(BlockingIOError):  # it rings already
            os.write(self._bell, b"\0")
        return waiting

    def asked(self) -> "list[Future[Reloaded]]":
        """Those who wait for an answer; one reload serves them all."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found

    def close(self) -> None:
        """Nobody will be answered any more."""
        for waiting in self.asked():
            waiting.cancel()
        os.close(self.fd)
        os.close(self._bell)
