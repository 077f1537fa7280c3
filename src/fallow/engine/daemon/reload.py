"""Requests to load the config again or to wake jobs: from a server's thread to the loop, and what came of them."""

import os
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

from fallow.core.mistake import Mistake
from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future

Q = TypeVar("Q")
A = TypeVar("A")


@value
class Reloaded:
    """The outcome of a reload: loaded, or why not, with every mistake of the config."""

    ok: bool
    sentence: str
    file: str | None = None
    mistakes: tuple[Mistake, ...] = ()


class Requests(Generic[Q, A]):
    """The requests of one kind that wait for the loop. Any thread may call `ask`; only the loop's thread the rest."""

    def __init__(self) -> None:
        self.fd, self._bell = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._bell, False)
        self._waiting: deque[tuple[Q, Future[A]]] = deque()

    def ask(self, what: Q) -> "Future[A]":
        """Request something; return a future of its outcome."""
        from concurrent.futures import Future  # does not load where Python cannot count the time

        waiting: Future[A] = Future()
        self._waiting.append((what, waiting))
        with suppress(BlockingIOError):  # the loop is woken already
            os.write(self._bell, b"\0")
        return waiting

    def asked(self) -> "list[tuple[Q, Future[A]]]":
        """Return the requests that wait, with the futures that answer them."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found

    def close(self) -> None:
        """Cancel the requests that wait, and close the pipe."""
        for _, waiting in self.asked():
            waiting.cancel()
        os.close(self.fd)
        os.close(self._bell)
