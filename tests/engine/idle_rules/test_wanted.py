"""Rules with `when = "wanted"`: a real `fallow up`, real launches that wait, on simulated GPUs.

That nothing happens to a job is shown beside another job that a rule for always ends: when that one is gone, the
first was idle for at least as long.
"""

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.waiting import end_group

TIMES = 'act = true\nwarmup = "0s"\ngrace = "5s"\nidle_below = 20\n'
WANTED = f'[[idle]]\nname = "wanted"\nwhen = "wanted"\nidle_for = "4s"\nwarn_before = "3s"\n{TIMES}'
PATIENT = f'[[idle]]\nname = "wanted"\nwhen = "wanted"\nidle_for = "301s"\nwarn_before = "300s"\n{TIMES}'
ALWAYS = f'[[idle]]\nname = "control"\nidle_for = "8s"\nwarn_before = "2s"\n{TIMES}'
FIRST = "GPU-fa110000-0000-4000-8000-000000000000"
Start = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def job(simulated: Fallow) -> Iterator[Start]:
    """Somebody's process that holds a GPU and does nothing."""
    simulated.environ["FALLOW_SIMULATE"] = "2xH100,2xT4"
    started: list[subprocess.Popen[bytes]] = []

    def start(gpu: int) -> "subprocess.Popen[bytes]":
        environ = simulated.on(str(gpu)) | {"FALLOW_CLAIM": f"that of GPU {gpu}"}  # so each is a job of its own
        started.append(subprocess.Popen(["sleep", "1000"], env=environ, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


@pytest.fixture
def up(simulated: Fallow, job: Start, tmp_path: pathlib.Path) -> Callable[[str], Fill]:
    """Start `fallow up` with this config, and wait until it looks."""

    def start(config: str) -> Fill:
        file = tmp_path / "fallow.toml"
        file.write_text(f"[machine]\nevery = '1s'\n[page]\nenabled = false\n{config}")
        file.chmod(0o600)
        daemon = Fill(simulated.start("up", "--config", str(file)))
        daemon.until("up, ")
        return daemon

    return start


def waits(fallow: Fallow, *words: str) -> Fill:
    """Return a launch that waits in line."""
    launch = Fill(fallow.start("run", "--wait", *words, "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; read _"))
    launch.until("waiting for ")
    return launch


def held_back(fallow: Fallow, gpu: int) -> str | None:
    """Return why the rule begins nothing, by `fallow why`."""
    rules = json.loads(fallow("why", str(gpu), "--json").stdout)["rules"]
    return next((rule["held_back"] for rule in rules), None)


@pytest.mark.more
def test_an_idle_job_is_left_alone_until_a_launch_waits_which_the_warning_names_and_which_gets_its_gpu(
    simulated: Fallow, job: Start, up: Callable[[str], Fill]
) -> None:
    idle, control = job(0), job(1)
    daemon = up(f'{WANTED}gpus = "0"\n{ALWAYS}gpus = "1"\n')
    daemon.until(f"job {control.pid} (sleep) was stopped")
    assert daemon.told("rule wanted: ") == []
    assert idle.poll() is None
    assert held_back(simulated, 0) == "nobody waits for its GPUs"
    assert "nothing begins: nobody waits for its GPUs" in simulated("why", "0").stdout
    launch = waits(simulated, "--gpus", "0")
    warning = daemon.until(f"job {idle.pid} (sleep) will be stopped in 3")
    assert f"waits for GPU 0 with sh (pid {launch.process.pid})" in warning
    daemon.until(f"rule wanted: stopping root's job {idle.pid}" if os.geteuid() == 0 else "rule wanted: stopping ")
    assert idle.wait(LIMIT_S) == -signal.SIGTERM
    assert launch.process.stdout is not None
    assert launch.process.stdout.readline() == f"on {FIRST}\n"


@pytest.mark.more
def test_launches_that_could_not_use_the_gpu_change_nothing(
    simulated: Fallow, job: Start, up: Callable[[str], Fill]
) -> None:
    """One waits for other GPUs by its list, one for more memory than this GPU has."""
    idle, *_ = job(2), job(3), job(0)
    launches = [waits(simulated, "--gpus", "3"), waits(simulated, "--gpus", "0,2", "-n", "1", "--min-free", "60GiB")]
    control = job(1)
    daemon = up(f'{WANTED}gpus = "2"\n{ALWAYS}gpus = "1"\n')
    daemon.until(f"job {control.pid} (sleep) was stopped")
    assert daemon.told("rule wanted: ") == []
    assert idle.poll() is None
    assert [launch.process.poll() for launch in launches] == [None, None]


@pytest.mark.more
def test_a_launch_that_the_job_itself_started_does_not_end_it(
    simulated: Fallow, job: Start, up: Callable[[str], Fill]
) -> None:
    control = job(1)
    line = "sleep 1000 & fallow run --gpus 0 --wait -- true & wait"
    nested = subprocess.Popen(
        ["sh", "-c", line],
        env=simulated.on("0") | {"FALLOW_CLAIM": "nested"},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        Fill(nested).until("waiting for ")
        daemon = up(f'{WANTED}gpus = "0"\n{ALWAYS}gpus = "1"\n')
        daemon.until(f"job {control.pid} (sleep) was stopped")
        assert daemon.told("rule wanted: ") == []
        assert nested.poll() is None
    finally:
        end_group(nested)


@pytest.mark.more
def test_a_pick_that_waits_counts_and_keeps_no_launch_from_the_gpu(
    simulated: Fallow, job: Start, up: Callable[[str], Fill]
) -> None:
    idle = job(0)
    pick = Fill(simulated.start("pick", "--gpus", "0", "--wait"))
    pick.until("waiting for ")
    daemon = up(f'{PATIENT}gpus = "0"\n')
    assert f"waits for GPU 0 with fallow (pid {pick.process.pid})" in daemon.until("will be stopped in 5m")
    launch = waits(simulated, "--gpus", "0")
    assert "first in line" in launch.said[-1], "the pick is not ahead of it"
    idle.kill()
    idle.wait(LIMIT_S)
    assert launch.process.stdout is not None
    assert launch.process.stdout.readline() == f"on {FIRST}\n", "though the pick came first"
    assert pick.process.poll() is None
    launch.process.communicate("\n", timeout=LIMIT_S)
    out, _ = pick.process.communicate(timeout=LIMIT_S)
    assert out == "0\n"
