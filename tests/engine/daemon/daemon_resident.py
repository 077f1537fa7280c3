"""A daemon in driven time, in a process that has the stand-in driver loaded; a test tells it what to do.

Each line on stdin: {"do": WHAT, ...}. `tick` drives so many ticks, and makes fillers die if told so; `reload` loads
the config anew; `see` answers with the board; `cost` with memory, descriptors, threads and children. Every answer has
what was told since the last one.
"""

import gc
import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any

from fallow.core.board import Board
from fallow.engine.config.feasible import Feasible
from fallow.engine.config.load import load
from fallow.engine.daemon.loop import Daemon
from fallow.engine.daemon.publisher import Publisher
from tests.engine.driven import driven_world
from tests.places import LIMIT_S


class DaemonResident:
    """The daemon, and what it is told to do."""

    def __init__(self, file: str, limit_s: float, *, dry_run: bool) -> None:
        self.told: list[str] = []
        self.world, self.clock = driven_world(dict(os.environ), limit_s)
        self.publisher = Publisher()
        feasible = Feasible(self.world, self.told.append, dry_run=dry_run)
        self.daemon = Daemon(
            self.world,
            lambda _: load(file, feasible, lambda _: None),
            self.publisher,
            self.told.append,
            file=file,
            dry_run=dry_run,
        )

    def do(self, asked: dict[str, Any]) -> object:
        match asked["do"]:
            case "tick":
                return self._tick(asked.get("ticks", 1))
            case "reload":
                return self.daemon.reload().ok
            case "see":
                assert self.publisher.board is not None
                return _shown(self.publisher.board)
            case "cost":
                return self._cost()
            case "end":
                self.daemon.end()
                self.world.close()
                return self._cost()
        raise ValueError(asked)

    def _tick(self, ticks: int) -> float:
        for _ in range(ticks):
            self.clock.sleep(self.daemon.config.machine.every)
            self.daemon.turn()
        return self.clock.now_s

    def _cost(self) -> dict[str, Any]:
        """While nobody writes: the thread that writes history down has a journal of its own open meanwhile."""
        assert self.daemon._history.settle(LIMIT_S)
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = file.read().split()
        return {
            "memory_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            "objects": len(gc.get_objects()),
            "open": _open_files(),
            "threads": threading.active_count(),
            "children": len(children),
        }


def _open_files() -> list[str]:
    """What each descriptor is; the one that lists them is gone again."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(found)


def _shown(board: Board) -> dict[str, Any]:
    return {
        "activities": [gpu.activity.value for gpu in board.status.gpus],
        "for_s": [gpu.for_s for gpu in board.status.gpus],
        "because": [gpu.because for gpu in board.status.gpus],
        "uuids": [str(gpu.uuid) for gpu in board.status.gpus],
        "fillers": [[view.name, list(view.gpus), view.phase, view.pid] for view in board.fillers],
        "guards": [[view.name, view.phase] for view in board.guards],
        "seconds": sum(board.counts.activity_s.values()),
        "spent": _spent(board),
        "actions": sorted([*key, count] for key, count in board.counts.actions.items()),
        "yields": {name: histogram.total for name, histogram in board.counts.yields.items()},
    }


def _spent(board: Board) -> dict[str, float]:
    """Seconds of GPU 0, by activity and user."""
    spent: dict[str, float] = {}
    for (uuid, activity, user), seconds in board.counts.activity_s.items():
        if uuid == board.status.gpus[0].uuid:
            spent[f"{activity} {user}"] = spent.get(f"{activity} {user}", 0.0) + seconds
    return spent


def serve() -> None:
    """Answer until stdin ends."""
    resident = DaemonResident(sys.argv[1], float(sys.argv[2]), dry_run="dry_run" in sys.argv)
    print(json.dumps({"answer": None, "told": resident.told}), flush=True)
    resident.told.clear()
    while line := sys.stdin.readline():
        answer = resident.do(json.loads(line))
        print(json.dumps({"answer": answer, "told": resident.told}), flush=True)
        resident.told.clear()


if __name__ == "__main__":
    serve()
