"""Taking all CUDA processes of a filler off their GPUs and putting them back, beside whoever must stay awake.

Suspending takes about 0.6 s for each GiB. It runs in a thread, so that the keeper can lose patience and kill.
"""

import threading
from collections.abc import Callable, Sequence

from fallow.actuators.process.checkpoint import Checkpoint
from fallow.core.errors import FallowError

_LOCK_WITHIN_MS = 2000


class Suspension:
    """One suspension or resumption that is under way."""

    def __init__(self, work: Callable[[], None], done: Callable[[], None], until_s: float, becomes: str) -> None:
        """`done` is called from the thread when it has ended; then `failure` says whether it came to anything."""
        self.until_s = until_s
        self.becomes = becomes
        self.failure: str | None = None
        self.is_over = False
        """Whether it has come to an end, good or bad. True before `done` is called: the thread may outlive that."""
        self._work = work
        self._done = done
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        except FallowError as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001  whatever it is, the filler is not off its GPUs
            self.failure = f"it failed with {type(error).__name__}: {error}"
        finally:
            self.is_over = True
            self._done()


def suspend_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Stop the GPU work of all of them, then take them off their GPUs. Those without CUDA are left alone."""
    on_gpu = [pid for pid in pids if checkpoint.state(pid) == "running"]
    for pid in on_gpu:
        checkpoint.lock(pid, _LOCK_WITHIN_MS)
    for pid in on_gpu:
        checkpoint.checkpoint(pid)


def resume_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Put back all that were taken off, then let their GPU work go on."""
    off_gpu = [pid for pid in pids if checkpoint.state(pid) == "checkpointed"]
    for pid in off_gpu:
        checkpoint.restore(pid)
    for pid in off_gpu:
        checkpoint.unlock(pid)
