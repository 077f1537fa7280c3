"""The board that other threads read at any time: the main thread replaces it at each tick."""

from collections.abc import Callable
from contextlib import suppress

from fallow.core.board import Board
from fallow.engine.daemon.recent import RecentMinutes


class Publisher:
    """Holds the last board. Replacing a reference is atomic, so readers need no lock."""

    def __init__(self) -> None:
        self.board: Board | None = None
        """The last board; None before the first tick."""
        self.when_published: Callable[[Board], None] = lambda _: None
        """Called in the main thread with each new board; it may only schedule work."""
        self.recent = RecentMinutes()
        """What the boards of the last minutes showed."""
        self.paused_until_s = 0.0
        """Until then, by the monotonic clock, readers of the board should leave the processor to a yield."""

    def publish(self, board: Board) -> None:
        """Replace the board, and tell who listens. Only from the main thread."""
        self.board = board
        self.recent.add(board.status)
        with suppress(RuntimeError):  # the event loop of who listens was just closed
            self.when_published(board)
