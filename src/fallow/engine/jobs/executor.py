"""Run actions that may take long: inline, or in a thread where the caller must go on."""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from fallow.core.findings import Outcome

Work = Callable[[], Outcome]
Then = Callable[[Outcome], None]


class Inline:
    """Runs an action while the caller waits."""

    def begin(self, work: Work, then: Then) -> None:
        """Run the action now."""
        then(work())

    def collect(self) -> None:
        """Do nothing: `begin` has passed on everything."""


class InThread:
    """Runs actions in a thread, which is started with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._todo: SimpleQueue[tuple[Work, Then]] = SimpleQueue()
        self._done: deque[tuple[Then, Outcome]] = deque()
        self._thread: Thread | None = None

    def begin(self, work: Work, then: Then) -> None:
        """Run the action after those that were begun before."""
        self._todo.put((work, then))
        if self._thread is None:
            # A daemon thread: an action that takes a day must not keep the program from ending.
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def collect(self) -> None:
        """Pass on the outcomes of the actions that are done."""
        while self._done:
            then, outcome = self._done.popleft()
            then(outcome)

    def _work(self) -> None:
        while True:
            work, then = self._todo.get()
            try:
                outcome = work()
            except BaseException as error:  # noqa: BLE001  an action that breaks has failed; the guard goes on
                outcome = Outcome(False, f"it failed with {type(error).__name__}: {error}")
            self._done.append((then, outcome))


Executor = Inline | InThread
