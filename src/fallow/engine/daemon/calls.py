"""Calls that other threads ask the loop to make, such as to read the config again."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from fallow.core.errors import FallowError
from fallow.core.mistake import Mistake
from fallow.core.value import value

T = TypeVar("T")


@value
class Reloaded:
    """The outcome of a reload: loaded, or why not, with every mistake of the config."""

    ok: bool
    sentence: str
    file: str | None = None
    mistakes: tuple[Mistake, ...] = ()


class Calls:
    """The calls that wait for the loop. Any thread may `ask`; only the loop's thread calls the other methods."""

    def __init__(self) -> None:
        self.fd, self._bell = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._bell, False)
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def ask(self, call: Callable[[], T]) -> "Future[T]":
        """Have the loop make this call; return the future of its result."""
        future: Future[T] = Future()
        self._waiting.append((call, future))
        with suppress(BlockingIOError):  # the loop is woken already
            os.write(self._bell, b"\0")
        return future

    def make(self) -> None:
        """Make the calls that wait. What they raise is the answer to who asked."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        while self._waiting:
            call, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except FallowError as error:
                future.set_exception(error)
            except (OSError, MemoryError):
                future.set_exception(FallowError("the system gives the daemon no more", "try again soon"))

    def close(self) -> None:
        """Cancel the calls that wait, and close the pipe."""
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        os.close(self.fd)
        os.close(self._bell)
