"""Writes history until it is killed: `python -m tests.history.writer FOLDER FIRST_TICK`, a line for each tick."""

import sys

from fallow.core.activity import Activity
from fallow.core.seen import Sight
from fallow.engine.history import History
from tests.history.life import START_S, holder, seen_gpu, sight

ACTIVITIES = (Activity.BUSY, Activity.FALLOW, Activity.STUCK)
CARDS = 8


def activity_at(second: int) -> Activity:
    """What all cards did in the second that ended then."""
    return ACTIVITIES[second // 7 % 3]


def tick(second: int) -> Sight:
    """Everything at one second."""
    gpus = (seen_gpu(index, activity_at(second), holder(100 + index)) for index in range(CARDS))
    return sight(START_S + second, *gpus)


def main() -> None:
    """Each tick is told when it was taken in and the disk has had its time."""
    history = History(sys.argv[1], lambda sentence: print(sentence, file=sys.stderr))
    second = int(sys.argv[2])
    while True:
        history.record(tick(second))
        print(second, flush=True)
        history.settle(60.0)
        second += 1


if __name__ == "__main__":
    main()
