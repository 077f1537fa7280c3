"""A small daemon: its main thread looks at the GPUs and writes history, another serves the page.

Prints the address of the page, and ends when its input does.
"""

import os
import pathlib
import select
import sys

from fallow.core.money import Prices
from fallow.engine.history import History
from fallow.engine.watching import watch
from fallow.engine.world import World
from tests.web.boards import Hall, board
from tests.web.served import TOKEN, served

EVERY_S = 0.25


def main() -> None:
    home = pathlib.Path(sys.argv[1])
    world = World(os.environ)
    history = History(world.state_folder, print)
    hall = Hall()
    with served(hall, home, token=TOKEN, prices=Prices(default=2.5, currency="USD")) as site:
        print(site.url, flush=True)
        for sight in watch(world, EVERY_S):
            history.record(sight)
            hall.publish(board(sight, holds=tuple(world.holds.active(sight.wall_s)), started_wall_s=sight.wall_s))
            if select.select([sys.stdin], [], [], 0)[0]:
                break
    history.close()
    world.close()


if __name__ == "__main__":
    main()
