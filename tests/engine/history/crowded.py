"""Record while there is room, while there is none, and while there is again.

`python -m tests.engine.history.crowded …`:

limit FOLDER   no file may grow beyond what it has (RLIMIT_FSIZE)
mount FOLDER   the folder is a small file system of its own, and something else fills it
"""

import contextlib
import os
import resource
import sys

from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.writer import tick

ROOM, FULL, ROOM_AGAIN = 60, 200, 300


def main() -> None:
    """Prints what was told, with the tick at which it was."""
    how, folder = sys.argv[1:]
    second = 0
    history = HistoryWriter(f"{folder}/state", lambda sentence: print(second, sentence, flush=True))
    for second in range(ROOM):
        history.record(tick(second))
        history.settle(60.0)
    fill(how, folder)
    for second in range(ROOM, FULL):
        history.record(tick(second))
        history.settle(60.0)
    make_room(how, folder)
    for second in range(FULL, ROOM_AGAIN):
        history.record(tick(second))
        history.settle(60.0)
    if how == "mount":
        os.system(f"cp {folder}/state/* {folder}/../copy/")  # before the file system goes
    os._exit(0)  # no orderly end: what is there must be there by now


def fill(how: str, folder: str) -> None:
    """Leave no room."""
    if how == "limit":
        largest = max(os.path.getsize(f"{folder}/state/{name}") for name in os.listdir(f"{folder}/state"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(largest, 12_000), resource.RLIM_INFINITY))
        return
    with contextlib.suppress(OSError), open(f"{folder}/filler", "wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)


def make_room(how: str, folder: str) -> None:
    """As before."""
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        os.unlink(f"{folder}/filler")


if __name__ == "__main__":
    main()
