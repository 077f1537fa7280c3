"""Write history until killed, one line for each tick: `python -m tests.engine.history.writer FOLDER FIRST_TICK`."""

import sys

from fallow.core.activity import Activity
from fallow.core.gpu_status import Status
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, status

ACTIVITIES = (Activity.BUSY, Activity.IDLE, Activity.STUCK)
CARDS = 8


def activity_at(second: int) -> Activity:
    """What all cards did in the second that ended then."""
    return ACTIVITIES[second // 7 % 3]


def tick(second: int) -> Status:
    """Everything at one second."""
    gpus = (gpu_status(index, activity_at(second), holder(100 + index)) for index in range(CARDS))
    return status(START_S + second, *gpus)


def main() -> None:
    """Each tick is told when it was taken in and the disk has had its time."""
    history = HistoryWriter(sys.argv[1], lambda sentence: print(sentence, file=sys.stderr))
    second = int(sys.argv[2])
    while True:
        history.record(tick(second))
        print(second, flush=True)
        history.settle(60.0)
        second += 1


if __name__ == "__main__":
    main()
