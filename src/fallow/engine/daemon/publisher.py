"""The board that everybody looks at: the main thread replaces it at each tick, others read it whenever they like."""

from collections.abc import Callable
from contextlib import suppress

from fallow.core.board import Board


class Publisher:
    """Where the last board hangs. To replace a reference is atomic, so nobody needs a lock to read it."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._callbacks: tuple[Callable[[Board], None], ...] = ()
        self.hushed_until_s = 0.0
        """Until then, by the monotonic clock, those who show the board should leave the processor to a yield."""

    @property
    def board(self) -> Board | None:
        """The last one; None before the first tick."""
        return self._board

    def publish(self, board: Board) -> None:
        """Hang up a new one, and tell whoever wants to know. Only from the main thread."""
        self._board = board
        for callback in self._callbacks:
            with suppress(RuntimeError):  # a loop that is closed this moment wants to know nothing more
                callback(board)

    def subscribe(self, callback: Callable[[Board], None]) -> Callable[[], None]:
        """Call this, in the main thread, with each new board: it may only schedule. The answer ends that."""
        self._callbacks = (*self._callbacks, callback)

        def end() -> None:
            self._callbacks = tuple(each for each in self._callbacks if each is not callback)

        return end
