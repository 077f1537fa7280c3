"""The daemon's socket in a process of its own: `python -m tests.interfaces.socket.small_daemon`.

It watches as the daemon does, keeps a journal, and says `ready` once somebody may ask. A line on stdin ends it.
CLUSTER_OF_TEST names a cluster of tests/interfaces/web/clusters.py that it is to show, and how old its look is;
STOPS_OF_TEST after how many seconds a rule of it stops the job on GPU 2.
"""

import os
import sys
import threading
from concurrent.futures import Future

from fallow.core.board import Board, Counting, Counts
from fallow.core.cluster import ClusterBoard
from fallow.core.findings import Verdict
from fallow.engine.client.socket_path import own_socket
from fallow.engine.config.model import Machine
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.file import HistoryFile
from fallow.engine.history.journal import open_journal
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.observe import watch
from fallow.engine.machine.world import World
from fallow.engine.stop.for_person import StopsForPersons
from fallow.interfaces.server_thread import ServerThread
from tests.interfaces.web import clusters
from tests.places import LIMIT_S
from tests.reasons import said

EVERY_S = 0.1
NOTHING_COUNTED = Counts(activity_s={}, energy_j={}, yields={}, actions={}, unknowns={})


def complain(sentence: str) -> None:
    print(f"small daemon: {sentence}", file=sys.stderr, flush=True)


class SmallDaemon:
    """Looks in one thread, answers in another."""

    def __init__(self) -> None:
        self.world = World(os.environ)
        self.publisher = Publisher()
        self.seen = threading.Event()
        self.going = True
        self.journal = open_journal(self.world, complain)

    def counting(self, uuid: str) -> tuple[Counting, ...]:
        in_s = float(os.environ["STOPS_OF_TEST"])
        return (Counting("nights", "a job", (uuid,), (), "idle", 60.0, "ask", in_s),)

    def look(self) -> None:
        started_s = SystemClock().wall_s()
        for status in watch(self.world, EVERY_S):
            board = Board(
                *(status, (), (), (), NOTHING_COUNTED, started_s, None, False),
                cluster=self.cluster(status.wall_s),
                counting=self.counting(str(status.gpus[2].uuid)) if "STOPS_OF_TEST" in os.environ else (),
            )
            self.publisher.publish(board)
            self.seen.set()
            if not self.going:
                break

    def cluster(self, wall_s: float) -> ClusterBoard | None:
        name, _, old_s = os.environ.get("CLUSTER_OF_TEST", "").partition(" ")
        return getattr(clusters, name)(wall_s - float(old_s or 0)) if name else None

    def answer(self) -> None:
        sources = Sources(
            self.world,
            self.publisher,
            self.journal.last,
            HistoryFile(self.world.state_folder, complain).past,
            lambda: Machine.model_construct(every=EVERY_S),
            Future,
            lambda _: Future(),
            tuple,
            StopsForPersons(self.world, self.journal),
        )
        ServerThread(own_socket(os.environ), sources, lambda _: None, complain)
        print("ready", flush=True)


def main() -> None:
    daemon = SmallDaemon()
    looking = threading.Thread(target=daemon.look)
    looking.start()
    daemon.seen.wait()
    board = daemon.publisher.board
    assert board is not None
    uuid = str(board.status.gpus[0].uuid)
    verdict = Verdict("GPU 0", "idle", said("the small daemon says so"), (("utilization", "0%"),))
    daemon.journal.verdict(verdict, [f"gpu:{uuid}"])
    idle = Verdict("ada's Slurm job 1234", "idle", said("idle for 45m"), (("n1:0", "0.0% at most"),))
    daemon.journal.verdict(idle, ["slurm:1234"])
    daemon.answer()
    sys.stdin.readline()
    daemon.going = False
    looking.join(LIMIT_S)


if __name__ == "__main__":
    main()
