"""The driver takes bare numbers of processes: none is moved whose number belongs to another process by now."""

import subprocess
from collections.abc import Callable, Iterator

import pytest

from fallow.actuators.process import suspend
from fallow.actuators.process.checkpoint import CheckpointFailed
from fallow.core.process import Process
from fallow.readers.proc import Proc
from tests.places import LIMIT_S

Job = tuple["subprocess.Popen[bytes]", Process]


class Driver:
    """The driver: any number that it is given is that of a CUDA process. It writes down what it is told."""

    def __init__(self) -> None:
        self.states: dict[int, str] = {}
        self.told: list[tuple[str, int]] = []
        self.before_lock: Callable[[int], None] = lambda _: None

    def state(self, pid: int) -> str:
        return self.states.get(pid, "running")

    def lock(self, pid: int, _: int) -> None:
        self.before_lock(pid)
        self._do("lock", pid, "locked")

    def checkpoint(self, pid: int) -> None:
        if self.state(pid) != "locked":
            raise CheckpointFailed("it is not locked")
        self._do("checkpoint", pid, "checkpointed")

    def restore(self, pid: int) -> None:
        self._do("restore", pid, "locked")

    def unlock(self, pid: int) -> None:
        self._do("unlock", pid, "running")

    def _do(self, step: str, pid: int, becomes: str) -> None:
        self.told.append((step, pid))
        self.states[pid] = becomes


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    found = [(each, Proc().stat(each.pid)) for each in started]
    yield [(each, Process(stat.pid, stat.birth)) for each, stat in found if stat is not None]
    for each in started:
        each.kill()
        each.wait(LIMIT_S)


def test_who_has_the_number_of_a_process_that_ended_is_neither_parked_nor_woken(jobs: list[Job]) -> None:
    driver, (_, same), (_, other) = Driver(), *jobs
    before = Process(other.pid, other.birth - 1)
    suspend.take_off(driver, Proc(), [before, same])
    assert driver.told == [("lock", same.pid), ("checkpoint", same.pid)]
    driver.states[other.pid] = "checkpointed"
    assert suspend.states(driver, Proc(), [before]) == {}
    suspend.put_back(driver, Proc(), [before, same])
    assert driver.told[2:] == [("restore", same.pid), ("unlock", same.pid)]


def test_who_gets_the_number_while_it_is_locked_is_let_go_and_left_out(jobs: list[Job]) -> None:
    driver, (program, first), (_, second) = Driver(), *jobs

    def end(pid: int) -> None:
        if pid == first.pid:
            program.kill()
            program.wait(LIMIT_S)  # from here on the number is free

    driver.before_lock = end
    suspend.take_off(driver, Proc(), [first, second])
    assert driver.told == [
        *(("lock", first.pid), ("unlock", first.pid)),
        *(("lock", second.pid), ("checkpoint", second.pid)),
    ]
