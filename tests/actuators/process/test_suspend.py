"""Taking the processes of a job off their GPUs and putting them back: all of them, or none."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.cuda_process import CudaProcess
from tests.standin import World

MIB = 2**20
RUNNING, CHECKPOINTED = 0, 2
DO = """
import json, sys
from fallow.actuators.process import suspend
from fallow.actuators.process.checkpoint import Checkpoint, CheckpointFailed
from fallow.core.process import Process
from fallow.readers.proc import Proc
processes = [Process(pid, Proc().stat(pid).birth) for pid in json.loads(sys.argv[2])]
try:
    getattr(suspend, sys.argv[1])(Checkpoint(), Proc(), processes)
    print("done")
except CheckpointFailed as error:
    print(type(error).__name__, error)
"""
Do = Callable[[str], str]


@pytest.fixture
def jobs(world: World, library: pathlib.Path) -> Iterator[list[CudaProcess]]:
    """Three processes with 10 MiB each on card 0."""
    started = [CudaProcess(world.environ(library)) for _ in range(3)]
    for process in started:
        assert process("context()") == 0
        assert process(f"take({10 * MIB})") > 0
    yield started
    for process in started:
        process.kill()


@pytest.fixture
def do(fallow: Fallow, jobs: list[CudaProcess]) -> Do:
    """Do something to all of them, and this process, which has no CUDA; what came of it."""
    pids = json.dumps([os.getpid(), *(each.pid for each in jobs)])

    def run(name: str) -> str:
        words = [sys.executable, "-c", DO, name, pids]
        environ = {**os.environ, **fallow.environ}
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout.strip()

    return run


def states(world: World, jobs: list[CudaProcess]) -> list[int | None]:
    return [world.cuda_state(each.pid) for each in jobs]


def test_all_are_taken_off_and_put_back_also_twice(world: World, jobs: list[CudaProcess], do: Do) -> None:
    for _ in range(2):
        assert do("take_off") == "done"
        assert states(world, jobs) == [CHECKPOINTED] * 3
    for _ in range(2):
        assert do("put_back") == "done"
        assert states(world, jobs) == [RUNNING] * 3


@pytest.mark.parametrize("step", ["cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint"])
def test_what_fails_in_the_middle_leaves_all_running(
    world: World, jobs: list[CudaProcess], do: Do, step: str
) -> None:
    world.fault(step, error=999)
    assert do("take_off").startswith("CheckpointFailed")
    assert states(world, jobs) == [RUNNING] * 3


def test_one_that_finds_no_room_takes_the_others_off_again(world: World, jobs: list[CudaProcess], do: Do) -> None:
    assert do("take_off") == "done"
    card = world[0]
    before, card.memory_used = card.memory_used, card.memory_total - card.memory_reserved - 25 * MIB
    assert "CUDA_ERROR_OUT_OF_MEMORY" in do("put_back")
    assert states(world, jobs) == [CHECKPOINTED] * 3
    card.memory_used = before
    assert do("put_back") == "done"


def test_what_can_be_neither_taken_off_nor_put_back_is_told_apart(
    world: World, jobs: list[CudaProcess], do: Do
) -> None:
    world.fault("cuCheckpointProcessCheckpoint", error=999)
    world.fault("cuCheckpointProcessUnlock", error=999)
    assert do("take_off").startswith("StaysOff")
    world.heal()
    assert do("put_back") == "done"
    assert states(world, jobs) == [RUNNING] * 3
