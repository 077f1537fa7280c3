"""Run actions that may take long: inline, or in a thread where the caller must go on."""

from collections import deque
from collections.abc import Callable

from fallow.core.findings import Outcome
from fallow.engine.machine.background import Background

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
        self._done: deque[tuple[Then, Outcome]] = deque()
        self._thread = Background[tuple[Work, Then]](name, self._work, lambda _: None, deadline_s=0.0)

    def begin(self, work: Work, then: Then) -> None:
        """Run the action after those that were begun before."""
        self._thread.give((work, then))

    def collect(self) -> None:
        """Pass on the outcomes of the actions that are done."""
        while self._done:
            then, outcome = self._done.popleft()
            then(outcome)

    def _work(self, begun: tuple[Work, Then]) -> None:
        work, then = begun
        try:
            outcome = work()
        except BaseException as error:  # noqa: BLE001  an action that breaks has failed; the guard goes on
            outcome = Outcome(False, f"it failed with {type(error).__name__}: {error}")
        self._done.append((then, outcome))


Executor = Inline | InThread
