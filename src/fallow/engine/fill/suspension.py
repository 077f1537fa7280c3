"""Take all CUDA processes of a filler off their GPUs and put them back, in a thread of the keeper.

Suspending takes about 0.6 s for each GiB. Meanwhile the keeper's main thread watches the deadline, and kills.
"""

import threading
from collections.abc import Callable, Sequence

from fallow.actuators.process.checkpoint import Checkpoint
from fallow.core.errors import FallowError

_LOCK_WITHIN_MS = 2000


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


def suspend_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Stop the GPU work of all these processes, then take them off their GPUs. Processes without CUDA are skipped."""
    on_gpu = [pid for pid in pids if checkpoint.state(pid) == "running"]
    for pid in on_gpu:
        checkpoint.lock(pid, _LOCK_WITHIN_MS)
    for pid in on_gpu:
        checkpoint.checkpoint(pid)


def resume_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Put the processes that were taken off back on their GPUs, then let their GPU work continue."""
    off_gpu = [pid for pid in pids if checkpoint.state(pid) == "checkpointed"]
    for pid in off_gpu:
        checkpoint.restore(pid)
    for pid in off_gpu:
        checkpoint.unlock(pid)
