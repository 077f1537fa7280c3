"""Take all CUDA processes of a job off their GPUs, and put them back: all of them, or none.

Suspending takes about 0.6 s for each GiB, so it is called in a thread, or by a command that waits.
"""

from collections.abc import Sequence
from contextlib import suppress

from fallow.actuators.process.checkpoint import Checkpoint, CheckpointFailed

_LOCK_WITHIN_MS = 2000


class StaysOff(CheckpointFailed):
    """Processes could be neither taken off together nor put back: some are off, and wait to be woken."""


def suspend_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Stop the GPU work of all these processes, then take them off their GPUs. Processes without CUDA are skipped."""
    on_gpu = [pid for pid in pids if checkpoint.state(pid) == "running"]
    for pid in on_gpu:
        checkpoint.lock(pid, _LOCK_WITHIN_MS)
    for pid in on_gpu:
        checkpoint.checkpoint(pid)


def resume_all(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Put the processes that were taken off back on their GPUs, then let the GPU work of all continue."""
    for pid in pids:
        if checkpoint.state(pid) == "checkpointed":
            checkpoint.restore(pid)
    for pid in pids:
        if checkpoint.state(pid) == "locked":
            checkpoint.unlock(pid)


def take_off(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Suspend all of them. If one cannot be, put all back and let them go on, then raise CheckpointFailed.

    If they cannot be put back either, raise StaysOff: what is off stays off, and the others are held until then.
    """
    try:
        suspend_all(checkpoint, pids)
    except CheckpointFailed as error:
        try:
            resume_all(checkpoint, pids)
        except CheckpointFailed as worse:
            raise StaysOff(f"{error}; and it could not be undone: {worse}") from None
        raise


def put_back(checkpoint: Checkpoint, pids: Sequence[int]) -> None:
    """Resume all of them. If one cannot be, take those off again that were put back, then raise CheckpointFailed."""
    restored: list[int] = []
    try:
        for pid in pids:
            if checkpoint.state(pid) == "checkpointed":
                checkpoint.restore(pid)
                restored.append(pid)
    except CheckpointFailed:
        for pid in restored:
            with suppress(CheckpointFailed):
                checkpoint.checkpoint(pid)
        raise
    resume_all(checkpoint, pids)


def states(checkpoint: Checkpoint, pids: Sequence[int]) -> set[str]:
    """Return the states that occur among these processes; processes without CUDA have none."""
    return {state for state in map(checkpoint.state, pids) if state is not None}
