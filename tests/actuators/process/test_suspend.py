"""Taking the processes of a job off their GPUs and putting them back: all of them, or none, and nobody else.

The driver takes bare numbers of processes: none is moved whose number belongs to another process by now.
"""

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
        self.refuses: set[tuple[str, int]] = set()
        self.before_lock: Callable[[int], None] = lambda _: None

    def state(self, pid: int) -> str:
        return self.states.get(pid, "running")

    def lock(self, pid: int) -> None:
        self.before_lock(pid)
        self._do("lock", pid, "running", "locked")

    def checkpoint(self, pid: int) -> None:
        self._do("checkpoint", pid, "locked", "checkpointed")

    def restore(self, pid: int) -> None:
        self._do("restore", pid, "checkpointed", "locked")

    def unlock(self, pid: int) -> None:
        self._do("unlock", pid, "locked", "running")

    def _do(self, step: str, pid: int, was: str, becomes: str) -> None:
        if self.state(pid) != was or (step, pid) in self.refuses:
            raise CheckpointFailed(f"{step} is refused")
        self.told.append((step, pid))
        self.states[pid] = becomes


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    found = [(each, Proc().stat(each.pid)) for each in started]
    yield [(each, stat.process) for each, stat in found if stat is not None]
    for each in started:
        each.kill()
        each.wait(LIMIT_S)


def test_all_are_taken_off_and_put_back_also_twice(jobs: list[Job]) -> None:
    driver, processes = Driver(), [process for _, process in jobs]
    for move, state in ((suspend.take_off, "checkpointed"), (suspend.put_back, "running")):
        for _ in range(2):
            move(driver, Proc(), processes)
            assert suspend.states(driver, Proc(), processes) == dict.fromkeys(processes, state)


@pytest.mark.parametrize(
    ("step", "move", "before", "after"),
    [
        ("lock", suspend.take_off, "running", "running"),
        ("checkpoint", suspend.take_off, "running", "running"),
        ("restore", suspend.put_back, "checkpointed", "checkpointed"),
    ],
)
def test_what_fails_in_the_middle_is_undone(
    jobs: list[Job], step: str, move: Callable[..., None], before: str, after: str
) -> None:
    driver, pids = Driver(), [process.pid for _, process in jobs]
    driver.states = dict.fromkeys(pids, before)
    driver.refuses = {(step, pids[1])}
    with pytest.raises(CheckpointFailed) as failed:
        move(driver, Proc(), [process for _, process in jobs])
    assert type(failed.value) is CheckpointFailed
    assert driver.states == dict.fromkeys(pids, after)


def test_what_can_be_neither_taken_off_nor_put_back_is_told_apart(jobs: list[Job]) -> None:
    driver, processes = Driver(), [process for _, process in jobs]
    driver.refuses = {("checkpoint", processes[1].pid), ("restore", processes[0].pid)}
    with pytest.raises(suspend.StaysOff):
        suspend.take_off(driver, Proc(), processes)
    driver.refuses = set()
    suspend.put_back(driver, Proc(), processes)
    assert set(driver.states.values()) == {"running"}


def test_who_has_the_number_of_a_process_that_ended_is_neither_parked_nor_woken(jobs: list[Job]) -> None:
    driver, (_, same), (_, other), _ = Driver(), *jobs
    before = Process(other.pid, other.birth - 1)
    suspend.take_off(driver, Proc(), [before, same])
    assert driver.told == [("lock", same.pid), ("checkpoint", same.pid)]
    driver.states[other.pid] = "checkpointed"
    assert suspend.states(driver, Proc(), [before]) == {}
    suspend.put_back(driver, Proc(), [before, same])
    assert driver.told[2:] == [("restore", same.pid), ("unlock", same.pid)]


def test_who_gets_the_number_while_it_is_locked_is_let_go_and_left_out(jobs: list[Job]) -> None:
    driver, (program, first), (_, second), _ = Driver(), *jobs

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
