"""What the daemon's doors may see: the board, the journal, history and the protections, and nothing that decides."""

from collections.abc import Callable
from typing import Protocol

from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.board import Board
from fallow.core.findings import Event
from fallow.core.ports import Clock
from fallow.engine.daemon.reload import Reloaded
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.records import Records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future


class Sources(Protocol):
    """What is shown. Everything but the board and the protections may take a while, and is asked for in threads."""

    simulated: str | None
    """The simulated machine, as `--simulate` names it; None for a real one."""
    clock: Clock
    protections: ProtectionFolder
    """Of the doors alone: the policies have their own."""

    def board(self) -> Board | None:
        """What was seen at the last tick; None before the first."""

    def events(self, key: str | None, limit: int) -> list[Event]:
        """The last events about a GPU or a process, newest first; without a key, about anything."""

    def past(self) -> HistoryReader | None:
        """History, opened for one question; whoever asked closes it."""

    def reload(self) -> "Future[Reloaded]":
        """Have the config loaded anew; what will come of it."""


class DaemonSources:
    """Those of a running daemon."""

    def __init__(
        self,
        board: Callable[[], Board | None],
        records: Records,
        protections: ProtectionFolder,
        clock: Clock,
        simulated: str | None,
        reload: Callable[[], "Future[Reloaded]"],
    ) -> None:
        self.board = board
        self.protections = protections
        self.clock = clock
        self.simulated = simulated
        self.events = records.events
        self.past = records.past
        self.reload = reload
