"""Take all CUDA processes of a job off their GPUs, and put them back: all of them, or none.

Suspending takes about 0.6 s for each GiB, so it is called in a thread, or by a command that waits.

The driver takes the number of a process, which another process may have by now. So each process is held by a pidfd
whose birth was compared: as long as that has not ended, nobody else has its number. What was locked for a process
that has ended meanwhile is let go again, and the process is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from fallow.actuators.process.checkpoint import Checkpoint, CheckpointFailed, State
from fallow.actuators.process.signals import Handle
from fallow.core.errors import NotPermitted
from fallow.core.process import Process, ProcessTable


class StaysOff(CheckpointFailed):
    """Processes could be neither taken off together nor put back: some are off, and wait to be woken."""


class _Held:
    """One process, which the driver is told to move only while it is that very process."""

    def __init__(self, driver: Checkpoint, handle: Handle) -> None:
        self.driver = driver
        self.process = handle.process
        self._handle = handle

    def state(self) -> State | None:
        """Return its state; None if it has ended, or is no CUDA process."""
        found = self.driver.state(self.process.pid)
        return None if self._handle.ended() else found

    def lock(self) -> bool:
        """Keep it from sending work to the GPU; return False if it has ended."""
        if self.do(self.driver.lock):
            return True
        with suppress(CheckpointFailed):
            if self.driver.state(self.process.pid) == "locked":
                self.driver.unlock(self.process.pid)  # somebody who has got its number
        return False

    def do(self, step: Callable[[int], None]) -> bool:
        """Do something to it; return False if it has ended before or meanwhile."""
        if self._handle.ended():
            return False
        try:
            step(self.process.pid)
        except CheckpointFailed:
            if not self._handle.ended():
                raise
        return not self._handle.ended()


def take_off(driver: Checkpoint, table: ProcessTable, processes: Sequence[Process]) -> None:
    """Suspend all of them. If one cannot be, put all back and let them go on, then raise CheckpointFailed.

    If they cannot be put back either, raise StaysOff: what is off stays off, and the others are held until then.
    """
    with _all_held(driver, table, processes) as held:
        try:
            for each in [each for each in held if each.state() == "running" and each.lock()]:
                each.do(driver.checkpoint)
        except CheckpointFailed as error:
            try:
                _resume(held)
            except CheckpointFailed as worse:
                raise StaysOff(f"{error}; and it could not be undone: {worse}") from None
            raise


def put_back(driver: Checkpoint, table: ProcessTable, processes: Sequence[Process]) -> None:
    """Resume all of them. If one cannot be, take those off again that were put back, then raise CheckpointFailed."""
    with _all_held(driver, table, processes) as held:
        restored: list[_Held] = []
        try:
            for each in held:
                if each.state() == "checkpointed":
                    each.do(driver.restore)
                    restored.append(each)
        except CheckpointFailed:
            for each in restored:
                with suppress(CheckpointFailed):
                    each.do(driver.checkpoint)
            raise
        _resume(held)


def states(driver: Checkpoint, table: ProcessTable, processes: Sequence[Process]) -> dict[Process, State]:
    """Return the state of each of these processes; those that have ended or are without CUDA have none."""
    with _all_held(driver, table, processes) as held:
        return {each.process: state for each in held if (state := each.state()) is not None}


def _resume(held: Sequence[_Held]) -> None:
    for each in held:
        if each.state() == "checkpointed":
            each.do(each.driver.restore)
    for each in held:
        if each.state() == "locked":
            each.do(each.driver.unlock)


@contextmanager
def _all_held(driver: Checkpoint, table: ProcessTable, processes: Sequence[Process]) -> Iterator[list[_Held]]:
    """Hold those of the processes that live; raise CheckpointFailed if none may be."""
    with ExitStack() as opened:
        held: list[_Held] = []
        for process in processes:
            try:
                handle = Handle.open(table, process, ())
            except NotPermitted as error:
                raise CheckpointFailed(str(error)) from None
            if handle is not None:
                held.append(_Held(driver, opened.enter_context(handle)))
        yield held
