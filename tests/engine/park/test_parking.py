"""`fallow up` parks idle jobs by cuCheckpoint: real processes on the stand-in driver, a newcomer, and waking."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.cuda_process import CudaProcess
from tests.engine.park.parked_jobs import (
    CHECKPOINTED,
    MIB,
    RUNNING,
    keep,
    parked,
    start_up,
    states,
    tensors,
)
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.standin import World
from tests.waiting import PROGRAM_S, end, until

UNKNOWN_ERROR = 999
NEWCOMER = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
assert driver.cuMemAlloc(SIZE)[0] == 0
print("the whole card is mine", flush=True)
input()
"""


def until_parked(up: Fill, world: World, jobs: list[CudaProcess]) -> str:
    said = up.until("was parked")
    assert states(world, jobs) == [CHECKPOINTED] * len(jobs)
    return said


@pytest.mark.more
def test_a_parked_job_leaves_the_whole_card_to_a_newcomer_and_goes_on_when_it_is_woken(
    world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    up = start_up(fallow, tmp_path)
    warned = up.until("will be parked, or stopped if that is not possible, in")
    assert "its memory leaves the GPU, the process stays, and fallow wake pid:" in warned
    assert "30.0 MiB in host memory" in until_parked(up, world, jobs)
    (job,) = until(lambda: [each for each in parked(fallow) if each["stage"] == "parked"], pause_s=PROGRAM_S)
    assert sorted(job["pids"]) == sorted(each.pid for each in jobs)
    assert (job["stage"], job["where"]) == ("parked", "30.0 MiB in host memory")
    assert json.loads(fallow("status", "--json", "0").stdout)["gpus"][0]["activity"] == "free"
    assert f"30.0 MiB in host memory; fallow wake pid:{job['pid']}" in " ".join(
        fallow("status", "-l", "0").stdout.split()
    )
    assert "parked" in fallow("why", "0").stdout
    keep(fallow, "0")  # the newcomer does nothing either
    size = world[0].memory_total - world[0].memory_reserved - 20 * MIB  # less than is left beside the parked job
    run = fallow.start("run", "--gpus", "0", "--", sys.executable, "-c", NEWCOMER.replace("SIZE", str(size)))
    assert run.stdout is not None
    assert run.stdout.readline() == "the whole card is mine\n", run.communicate(timeout=LIMIT_S)
    refused = fallow("wake", "0")
    assert refused.returncode == 75
    assert "GPU 0 is claimed by" in refused.stderr
    run.communicate("\n", timeout=LIMIT_S)
    woken = fallow("wake", f"pid:{jobs[1].pid}")
    assert woken.returncode == 0, woken.stderr
    assert "was woken" in woken.stdout
    assert states(world, jobs) == [RUNNING] * 2
    assert [tensors(each) for each in jobs] == ["tensors"] * 2
    again = fallow("wake", "0")
    assert (again.returncode, again.stdout) == (0, "")
    assert "no job of GPU 0 is parked" in again.stderr


@pytest.mark.more
def test_a_process_that_cannot_be_parked_leaves_the_whole_job_running_and_then_the_rule_stops_it(
    world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    fault = world.fault("cuCheckpointProcessCheckpoint", error=UNKNOWN_ERROR)
    up = start_up(fallow, tmp_path, '["park"]')
    said = up.until("it was not parked")
    assert "could not be checkpointed: CUDA_ERROR_UNKNOWN; it goes on as before" in said
    assert states(world, jobs) == [RUNNING] * 2
    world.heal(fault)
    until_parked(up, world, jobs)


@pytest.mark.more
def test_a_dry_run_says_what_it_would_park_and_touches_nothing(
    world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    up = start_up(fallow, tmp_path, '["park", "stop"]', "--dry-run")
    up.until("would park root's job")
    until(lambda: fallow("why", "0").stdout, lambda story: "would park it: 30.0 MiB in host memory" in story)
    assert world.calls("cuCheckpointProcessLock") == 0
    assert states(world, jobs) == [RUNNING] * 2


def test_a_protection_keeps_a_job_from_being_parked(
    world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    keep(fallow, f"pid:{jobs[0].pid}")
    start_up(fallow, tmp_path)
    until(lambda: fallow("why", "0").stdout, lambda story: "left alone" in story, pause_s=PROGRAM_S)
    assert world.calls("cuCheckpointProcessLock") == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.more
def test_a_daemon_that_ends_leaves_jobs_parked_and_the_next_one_knows_them(
    how: signal.Signals, world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    up = start_up(fallow, tmp_path)
    until_parked(up, world, jobs)
    up.process.send_signal(how)
    _, rest = up.process.communicate(timeout=LIMIT_S)
    assert ("it stays so without the daemon" in rest) is (how is signal.SIGTERM)
    assert states(world, jobs) == [CHECKPOINTED] * 2
    assert [job["stage"] for job in parked(fallow)] == ["parked"], "without a daemon"
    again = start_up(fallow, tmp_path)
    again.until("up, with")
    (job,) = until(lambda: parked(fallow), pause_s=PROGRAM_S)
    assert len(job["pids"]) == 2
    keep(fallow, "0")
    assert fallow("wake", "user:root").returncode == 0
    assert [tensors(each) for each in jobs] == ["tensors"] * 2


@pytest.mark.more
def test_a_daemon_that_is_killed_while_it_parks_leaves_nothing_locked_behind(
    world: World, jobs: list[CudaProcess], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    fault = world.fault("cuCheckpointProcessCheckpoint", never=True)
    up = start_up(fallow, tmp_path)
    until(lambda: states(world, jobs), lambda seen: seen == [1, 1])
    end(up.process)
    world.heal(fault)
    again = start_up(fallow, tmp_path)
    again.until("is not parked any more: it is awake")
    assert [tensors(each) for each in jobs] == ["tensors"] * 2


IS_PARKED = """
import os, sys
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.engine.machine.world import World
from fallow.engine.park.checkpointed import Checkpoints
processes = tuple(Process(*map(int, word.split("@"))) for word in sys.argv[1:])
print(Checkpoints(World(os.environ)).is_parked(ParkedJob(processes[0], processes, "somebody", "job", (), 0.0)))
"""


def test_a_job_of_which_a_process_has_ended_is_not_called_awake_for_that(
    world: World, jobs: list[CudaProcess], fallow: Fallow
) -> None:
    births = [Proc().stat(each.pid) for each in jobs]
    words = [f"{each.pid}@{each.birth}" for each in births if each is not None]

    def asked() -> str:
        command = [sys.executable, "-c", IS_PARKED, *words]
        return subprocess.run(command, env=fallow.environ, capture_output=True, text=True, check=True).stdout.strip()

    assert asked() == "False"
    jobs[0].kill()
    assert "processes of it have ended meanwhile" in asked()


@pytest.mark.more
def test_a_job_that_claimed_its_gpu_is_stopped_because_parking_would_free_nothing(
    world: World, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    program = NEWCOMER.replace("SIZE", str(MIB))
    run = fallow.start("run", "--gpus", "0", "--", sys.executable, "-c", program)
    assert run.stdout is not None
    assert run.stdout.readline()
    up = start_up(fallow, tmp_path)
    up.until("will be stopped in")
    assert "it has claimed its GPU with fallow run" in up.until("it was not parked")
    up.until("was stopped: idle")
