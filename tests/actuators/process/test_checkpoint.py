"""Suspending a CUDA process, step by step, through the driver's own calls; and saying why not."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fallow.core.missing import remedy
from tests.conftest import Fallow
from tests.cuda_process import CudaProcess
from tests.standin import CUDA_SONAME, SONAME, World
from tests.waiting import end

MIB = 2**20
SUSPENDER = """
import json, sys
from fallow.actuators.process.checkpoint import Checkpoint, CheckpointFailed
checkpoint = Checkpoint()
for line in sys.stdin:
    name, *given = json.loads(line)
    try:
        answer = getattr(checkpoint, name)(*given)
    except CheckpointFailed as error:
        answer = {"failed": str(error)}
    print(json.dumps(answer), flush=True)
"""


class Suspender:
    """A process that suspends others: `suspender("lock", pid)`."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUSPENDER], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, *words: object) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def suspender(fallow: Fallow) -> Iterator[Callable[..., Suspender]]:
    """Made when the world is as it should be."""
    made: list[Suspender] = []

    def make(**variables: str) -> Suspender:
        made.append(Suspender({**os.environ, **fallow.environ, **variables}))
        return made[-1]

    yield make
    for each in made:
        end(each.process)


@pytest.fixture
def job(world: World, library: pathlib.Path) -> Iterator[CudaProcess]:
    """A CUDA process with 100 MiB on card 0."""
    process = CudaProcess(world.environ(library))
    assert process("context()") == 0
    assert process(f"take({100 * MIB})") > 0
    yield process
    process.kill()


def test_a_process_is_suspended_and_goes_on(
    world: World, job: CudaProcess, suspender: Callable[..., Suspender]
) -> None:
    hands = suspender()
    assert hands("why_not") is None
    assert [hands("state", each) for each in (job.pid, os.getpid())] == ["running", None], "we have no CUDA"
    assert hands("lock", job.pid) is None
    assert hands("state", job.pid) == "locked"
    job.begin("code(driver.cuCtxSynchronize())")
    assert hands("checkpoint", job.pid) is None
    assert hands("state", job.pid) == "checkpointed"
    assert world.cuda_memory(0) == {}
    assert hands("restore", job.pid) is None
    assert world.cuda_memory(0) == {job.pid: 100 * MIB}
    assert hands("unlock", job.pid) is None
    assert hands("state", job.pid) == "running"
    assert job.answer() == 0
    job.kill()
    assert hands("state", job.pid) is None


def test_what_the_driver_refuses_is_a_sentence_and_may_be_tried_again(
    world: World, job: CudaProcess, suspender: Callable[..., Suspender]
) -> None:
    hands = suspender()
    refused = {"failed": f"pid {job.pid} could not be checkpointed: CUDA_ERROR_ILLEGAL_STATE"}
    assert hands("checkpoint", job.pid) == refused, "it is not locked"
    world.fault("cuCheckpointProcessLock", error=600)
    assert hands("lock", job.pid) == {"failed": f"pid {job.pid} did not come to rest in time, and goes on"}
    world.heal()
    hands("lock", job.pid)
    hands("checkpoint", job.pid)
    before, world[0].memory_used = world[0].memory_used, world[0].memory_total
    assert hands("restore", job.pid) == {"failed": f"pid {job.pid} could not be restored: CUDA_ERROR_OUT_OF_MEMORY"}
    assert hands("state", job.pid) == "checkpointed"
    world[0].memory_used = before
    assert hands("restore", job.pid) is None


def test_a_driver_that_is_too_old_is_named(world: World, suspender: Callable[..., Suspender]) -> None:
    world.cuda_version = 12040
    hands = suspender()
    assert hands("why_not") == "suspending needs a driver for CUDA 12.8 or newer (570); this one speaks 12.4"
    assert hands("lock", 1) == {"failed": hands("why_not")}


def test_without_a_cuda_driver_it_says_so(
    world: World, library: pathlib.Path, tmp_path: pathlib.Path, suspender: Callable[..., Suspender]
) -> None:
    (tmp_path / SONAME).symlink_to(library / SONAME)
    (tmp_path / CUDA_SONAME).touch()  # no library, also if this machine has one
    said = suspender(LD_LIBRARY_PATH=str(tmp_path))("why_not")
    assert said == "there is no NVIDIA driver here that speaks CUDA"


def test_without_cuda_bindings_it_says_what_to_install(
    world: World, tmp_path: pathlib.Path, suspender: Callable[..., Suspender]
) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").touch()  # hides the real one
    assert remedy("cuda") in str(suspender(PYTHONPATH=str(tmp_path))("why_not"))
