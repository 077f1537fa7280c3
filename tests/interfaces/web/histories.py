"""A past for the cards of a board: the last minutes, as the daemon would have recorded them."""

import pathlib

from fallow.core.board import Board
from fallow.core.gpu_status import Status
from fallow.core.value import replace
from fallow.engine.history.writer import HistoryWriter
from tests.places import LIMIT_S


def record(home: pathlib.Path, board: Board, seconds: int = 300, gap: range = range(0)) -> None:
    """Every GPU did what it does on the board, for some seconds until its time; nobody looked during the gap."""
    state = home / "state"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    status: Status = board.status if board.full_status is None else board.full_status
    told: list[str] = []
    history = HistoryWriter(str(state), told.append)
    for second in range(-seconds, 0):
        if second not in gap:
            history.record(replace(status, wall_s=status.wall_s + second))
    assert history.settle(LIMIT_S)
    history.close()
    assert told == []
