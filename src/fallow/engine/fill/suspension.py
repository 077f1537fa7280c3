"""Suspend or resume a filler in a thread of its keeper.

Suspending takes about 0.6 s for each GiB. Meanwhile the keeper's main thread watches the deadline, and kills.
"""

import threading
from collections.abc import Callable

from fallow.core.errors import FallowError


class Suspension:
    """A thread that suspends or resumes a filler."""

    def __init__(self, work: Callable[[], None], done: Callable[[], None], until_s: float, becomes: str) -> None:
        """Start the thread. It calls `done` at its end; then `failure` is the reason, or None if it succeeded."""
        self.until_s = until_s
        self.becomes = becomes
        self.failure: str | None = None
        self.is_over = False
        """Whether it has succeeded or failed. It is True before `done` is called: the thread may outlive that."""
        self._work = work
        self._done = done
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        except FallowError as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001  whatever the error, the filler is still on its GPUs
            self.failure = f"it failed with {type(error).__name__}: {error}"
        finally:
            self.is_over = True
            self._done()
