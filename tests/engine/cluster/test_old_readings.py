"""What the metrics said some minutes ago stops no job: somebody may have made the engine slow meanwhile."""

import pathlib

from fallow.engine.cluster.ports import EngineLook
from tests.engine.cluster.planned import PlannedCluster, job, reading


def test_nothing_is_done_by_readings_that_are_old_because_the_engine_was_slow(tmp_path: pathlib.Path) -> None:
    cluster = PlannedCluster(tmp_path)
    cluster.engine.jobs = [job(7)]
    cluster.eyes.gpus = [reading(0, 0.0), reading(1, 0.0)]
    cluster.minutes(5)
    quick = cluster.engine.look

    def slow() -> EngineLook:
        cluster.clock.now_s += 100.0
        return quick()

    cluster.engine.look = slow  # type: ignore[method-assign]
    cluster.look()
    assert cluster.done == []
    assert "was read 3m20s ago" in str(cluster.view(7).refused)
    cluster.engine.look = quick  # type: ignore[method-assign]
    cluster.look(2)
    assert cluster.done == ["warn 7"]
