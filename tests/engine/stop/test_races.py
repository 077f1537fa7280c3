"""What changes between the list and the stop: nothing is touched that was not listed, and nothing on missing data."""

import json
from collections.abc import Iterator

import pytest

from fallow.core.value import replace
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World as Machine
from fallow.engine.stop.compose import stop_by_hand
from fallow.engine.stop.stop import Stage, StoppedJob
from tests.conftest import Fallow
from tests.interfaces.cli.stopped import ALONE, SLEEPER, Job
from tests.standin import Process, World


@pytest.fixture
def job(simulated: Fallow) -> Iterator[Job]:
    """A job that this process has not started, and so may stop."""
    made = Job(simulated.on("1"), ALONE + SLEEPER)
    yield made
    made.end()


def test_a_process_that_has_the_pid_by_now_is_not_touched(simulated: Fallow, job: Job) -> None:
    machine = Machine(simulated.environ)
    with open_run(machine, lambda _: None) as run:
        jobs, stop = stop_by_hand(run, 0.0)
        (found,) = jobs.meant(["1"])
        (process,) = found.job.members
        earlier = replace(found.job, members={replace(process, birth=process.birth - 1): "python"})
        listed = StoppedJob(replace(found, job=earlier))
        stop.stop([listed])
        assert (listed.stage, listed.because) == (Stage.STOPPED, "it had ended before")
        assert job.lives
        now = StoppedJob(found)
        stop.stop([now])
        assert now.stage is Stage.STOPPED
        assert not job.lives


def test_a_protection_that_is_placed_after_the_list_counts(simulated: Fallow, job: Job) -> None:
    machine = Machine(simulated.environ)
    with open_run(machine, lambda _: None) as run:
        jobs, stop = stop_by_hand(run, 0.0)
        (found,) = jobs.meant([str(job.pid)])
        assert stop.refusal(found) is None
        assert simulated("protect", "1", "--for", "1h").returncode == 0
        listed = StoppedJob(found)
        stop.stop([listed])
        assert listed.stage is Stage.LEFT
        assert listed.reason is not None
        assert listed.reason.kind == "protected"
        assert job.lives


def test_a_process_that_comes_after_the_list_is_not_touched(simulated: Fallow, job: Job) -> None:
    machine = Machine(simulated.environ)
    with open_run(machine, lambda _: None) as run:
        jobs, stop = stop_by_hand(run, 0.0)
        found = jobs.meant(["1"])
        later = Job(simulated.on("1"), ALONE + SLEEPER)
        try:
            stop.stop([StoppedJob(each) for each in found])
            assert not job.lives
            assert later.lives
        finally:
            later.end()


@pytest.mark.more
def test_a_process_of_the_same_command_that_was_there_all_the_time_has_not_come_back(
    simulated: Fallow, job: Job
) -> None:
    other = Job(simulated.on("1"), ALONE + SLEEPER)
    try:
        done = simulated("stop", str(job.pid), "--yes", "--json")
        (told,) = json.loads(done.stdout)["jobs"]
        assert (done.returncode, told["outcome"], told["came_back"]) == (0, "stopped", False)
        assert other.lives
    finally:
        other.end()


def test_a_card_whose_processes_cannot_be_read_is_said_and_nothing_is_stopped(fallow: Fallow, world: World) -> None:
    listed = Job(fallow.environ, ALONE + SLEEPER)
    try:
        world[3].compute = [Process(listed.pid, 2**30)]
        world.fault("nvmlDeviceGetComputeRunningProcesses", card=3, error=999)
        done = fallow("stop", "3", "--yes")
        assert (done.returncode, "what is on GPU 3 cannot be read" in done.stderr) == (1, True), done.stderr
        assert listed.lives
    finally:
        listed.end()


def test_without_a_driver_it_is_69(fallow: Fallow, world: World) -> None:
    world.fault("nvmlInit", never=True)
    assert fallow.process("stop", "all", "--yes", FALLOW_DRIVER_TIMEOUT="0.02").returncode == 69
