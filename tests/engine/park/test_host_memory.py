"""Jobs that are parked together share the host memory that is free."""

import subprocess
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.jobs.ports import ParkResult
from fallow.engine.machine.world import World
from fallow.engine.park.checkpointed import Checkpoints
from fallow.readers.host_memory import room_bytes
from fallow.readers.proc import Proc
from tests.places import LIMIT_S


class Driver:
    """The driver: it moves memory only when it is let."""

    def __init__(self) -> None:
        self.states: dict[int, str] = {}
        self.moves, self.may_go_on = Event(), Event()

    def why_not(self) -> None:
        return None

    def state(self, pid: int) -> str:
        return self.states.get(pid, "running")

    def lock(self, pid: int) -> None:
        self.states[pid] = "locked"

    def checkpoint(self, pid: int) -> None:
        self.moves.set()
        assert self.may_go_on.wait(LIMIT_S)
        self.states[pid] = "checkpointed"


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    found = [Proc().stat(each.pid) for each in started]
    yield [Process(stat.pid, stat.birth) for stat in found if stat is not None]
    for each in started:
        each.kill()
        each.wait(LIMIT_S)


def test_what_is_on_its_way_into_host_memory_is_not_given_to_another_job(processes: list[Process]) -> None:
    world, driver = World({}), Driver()
    free = room_bytes(world.proc, [each.pid for each in processes])
    assert not isinstance(free, Unknown)
    first, second = (
        ParkedJob(each, (each,), "eve", "job", (("GPU-1", int(free * 0.6)),), 0.0, holders=(each,))
        for each in processes
    )
    checkpoints, results = Checkpoints(world, driver), list[ParkResult]()
    thread = Thread(target=lambda: results.append(checkpoints.park(first)[1]))
    thread.start()
    try:
        assert driver.moves.wait(LIMIT_S)
        _, refused = checkpoints.park(second)
        assert not refused.parked
        assert refused.in_doubt, "it is not stopped for it: there is room once the other is parked"
        assert "for jobs that are being parked now" in refused.words
        assert driver.state(second.first.pid) == "running"
    finally:
        driver.may_go_on.set()
        thread.join(LIMIT_S)
    assert [each.parked for each in results] == [True]
    assert checkpoints.park(second)[1].parked, "the memory of this test was moved nowhere"
