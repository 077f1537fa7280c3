"""Deeds that may take long: done at once by who has nothing else to do, or beside by who must go on looking."""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from fallow.core.findings import Outcome

Work = Callable[[], Outcome]
Then = Callable[[Outcome], None]


class Executor(Protocol):
    """Whoever does deeds, one after the other."""

    def begin(self, work: Work, then: Then) -> None:
        """Do this; `then` is called, by whoever collects, with what came of it."""

    def collect(self) -> None:
        """Pass on what came of what has been done."""


class Inline:
    """Does it while its caller waits."""

    def begin(self, work: Work, then: Then) -> None:
        """Do it."""
        then(work())

    def collect(self) -> None:
        """All is passed on already."""


class InThread:
    """Does it in a thread of its own, which there is only once there is something to do."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._todo: SimpleQueue[tuple[Work, Then]] = SimpleQueue()
        self._done: deque[tuple[Then, Outcome]] = deque()
        self._thread: Thread | None = None

    def begin(self, work: Work, then: Then) -> None:
        """Do it after what was begun before."""
        self._todo.put((work, then))
        if self._thread is None:
            # A daemon thread: a deed that takes a day must not keep the program from ending.
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def collect(self) -> None:
        """Pass on what came of what has been done."""
        while self._done:
            then, outcome = self._done.popleft()
            then(outcome)

    def _work(self) -> None:
        while True:
            work, then = self._todo.get()
            try:
                outcome = work()
            except BaseException as error:  # noqa: BLE001  a deed that breaks has failed; who guards goes on guarding
                outcome = Outcome(False, f"it failed with {type(error).__name__}: {error}")
            self._done.append((then, outcome))
