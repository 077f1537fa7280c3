"""The daemon's main thread never waits for the cluster: it starts, replaces and ends its thread."""

import pathlib
import threading

from fallow.core.cluster import ClusterBoard
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.cluster.watch import ClusterWatch
from fallow.engine.config.load import understand
from fallow.engine.config.model import Config
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from tests.engine.cluster.planned import PlannedCluster
from tests.places import LIMIT_S
from tests.waiting import until


def cluster_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "fallow-cluster"]


def test_a_config_starts_a_cluster_and_another_one_ends_it(tmp_path: pathlib.Path) -> None:
    for name in ("scontrol", "squeue", "scancel"):  # a Slurm whose controller does not answer
        (tmp_path / name).write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "FALLOW_STATE_DIR": str(tmp_path / "state"),
        "FALLOW_CLAIM_DIR": str(tmp_path / "claims"),
    }
    said: list[str] = []
    world = World(environ)
    journal = Journal(str(tmp_path / "state"), world.clock.wall_s, said.append)
    watch = ClusterWatch(Run(world, journal, Report(said.append)))
    watch.change(Config())
    assert watch.board is None
    watch.change(understand('[cluster]\nengine = "slurm"\nevery = "1s"\n', "fallow.toml"))
    until(lambda: watch.board is not None)
    board = watch.board
    assert isinstance(board, ClusterBoard)
    assert any("Unable to contact slurm controller" in trouble for trouble in board.troubles)
    watch.turn()
    assert any("nothing is stopped until" in sentence for sentence in said)
    assert any(thread.name == "fallow-cluster" for thread in threading.enumerate())
    before = cluster_threads()
    watch.change(understand('[cluster]\nengine = "slurm"\nevery = "1s"\n[protect]\nusers = ["ada"]\n', "fallow.toml"))
    assert cluster_threads() == before, "what has been counted stays"
    watch.change(Config())
    assert watch.board is None
    until(lambda: all(thread.name != "fallow-cluster" for thread in threading.enumerate()))
    watch.end()
    journal.close()
    world.close()


def test_an_engine_that_hangs_delays_nobody_else(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path)
    hangs, asked = threading.Event(), threading.Event()

    def hang() -> EngineLook:
        asked.set()
        hangs.wait(LIMIT_S)
        return EngineLook((), (), 0)

    cluster.engine.look = hang  # type: ignore[method-assign]
    cluster.loop.start()
    assert asked.wait(LIMIT_S)
    cluster.loop.turn()
    assert cluster.loop.board is None
    cluster.loop.end(0.01)
    hangs.set()
    until(lambda: all(thread.name != "fallow-cluster" for thread in threading.enumerate()))
    cluster.journal.close()


def test_after_the_end_nothing_is_stopped_and_warnings_are_taken_back(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path)
    cluster.minutes(10)
    assert cluster.done == ["warn 7"]
    cluster.clock.now_s += 30.0
    cluster.loop.end()
    cluster.loop.start()  # it ends at once
    until(lambda: all(thread.name != "fallow-cluster" for thread in threading.enumerate()))
    cluster.look(2)
    assert cluster.done == ["warn 7", "cancel 7"]
    cluster.journal.close()
