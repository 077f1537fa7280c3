"""Idle rules of a real `fallow up` against a real Jupyter server and real containers, on simulated GPUs.

In each test one job that must be stopped and one that must not are judged side by side: when the first is gone, the
second was seen for just as long.
"""

import os
import pathlib
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import LIMIT_S, Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import PYTHON
from tests.real_owners import Jupyter, Podman, eventually
from tests.waiting import end

RULE = """
[machine]
every = "1s"
[[idle]]
name = "forgotten"
act = true
idle_for = "4s"
warmup = "0s"
warn_before = "2s"
grace = "5s"
idle_below = 20
"""
StartUp = Callable[[str], Fill]


@pytest.fixture
def up(simulated: Fallow, tmp_path: pathlib.Path) -> StartUp:
    """Start `fallow up` with the rule and more of a config."""

    def start(more: str = "") -> Fill:
        file = tmp_path / "fallow.toml"
        file.write_text(RULE + more)
        file.chmod(0o600)
        return Fill(simulated.start("up", "--config", str(file)))

    return start


@pytest.fixture
def jupyter(simulated: Fallow, tmp_path: pathlib.Path) -> Iterator[Jupyter]:
    server = Jupyter(tmp_path / "jupyter", simulated.environ)
    yield server
    server.close()


@pytest.fixture
def podman(simulated: Fallow) -> Iterator[Podman]:
    engine = Podman()
    simulated.environ["FALLOW_CONTAINER_ENGINE"] = str(engine.socket)
    yield engine
    engine.close()


def on_gpu(fallow: Fallow, gpu: int) -> list[str]:
    """Options that put a container on a simulated GPU."""
    names = ("FALLOW_SIMULATE", "FALLOW_CLAIM_DIR")
    given = {name: fallow.environ[name] for name in names} | {"CUDA_VISIBLE_DEVICES": str(gpu)}
    return [word for name, text in given.items() for word in ("-e", f"{name}={text}")]


@pytest.mark.engine
def test_an_idle_notebook_is_ended_by_its_server_for_good_and_one_in_a_protected_folder_is_left_alone(
    simulated: Fallow, up: StartUp, jupyter: Jupyter
) -> None:
    kept, kept_pid = jupyter.open("proj/thesis.ipynb")
    idle, idle_pid = jupyter.open("train.ipynb", gpu="1")
    running = up(f"[protect]\nnotebooks = ['{jupyter.notebooks}/proj']")
    assert "will be stopped" in running.until(f"job {idle_pid} ({PYTHON}), notebook will be stopped")
    gone = running.until(f"job {idle_pid} ({PYTHON}), notebook was stopped")
    assert "its Jupyter server shut the kernel down" in gone
    eventually(lambda: jupyter.kernels() == [kept], "the end of the kernel")
    assert jupyter.pid_of(idle) is None
    assert jupyter.pid_of(kept) == kept_pid
    said = simulated("status", "--json").stdout
    assert '"kind": "notebook"' in said
    assert '"name": "thesis.ipynb"' in said


@pytest.mark.engine
def test_an_idle_container_is_stopped_by_its_engine_for_good_and_one_with_a_label_is_left_alone(
    simulated: Fallow, up: StartUp, podman: Podman
) -> None:
    kept, kept_pid = podman.run("keeper", "--label", "fallow.protect=yes", *on_gpu(simulated, 0))
    idle, _ = podman.run("vllm-prod", "--restart=always", *on_gpu(simulated, 1))
    running = up("")
    gone = running.until("container vllm-prod was stopped")
    assert "its engine stopped the container" in gone
    assert podman.pid_of(idle) == 0
    assert podman.pid_of(kept) == kept_pid
    assert "container keeper" in simulated("status", COLUMNS="120").stdout


@pytest.mark.engine
def test_a_container_whose_engine_does_not_answer_is_left_alone_and_the_reason_is_kept(
    simulated: Fallow, up: StartUp, podman: Podman, tmp_path: pathlib.Path
) -> None:
    silent, pid = podman.run("vllm-prod", *on_gpu(simulated, 0))
    simulated.environ["FALLOW_CONTAINER_ENGINE"] = str(tmp_path / "nobody.sock")
    running = up("")
    running.until("up, with")
    eventually(lambda: "no container engine's socket is here" in simulated("why", str(pid)).stdout, "the reason")
    assert podman.pid_of(silent) == pid


@pytest.mark.engine
@pytest.mark.more
def test_what_comes_back_is_told_and_from_then_on_only_reported(
    simulated: Fallow, up: StartUp, podman: Podman, tmp_path: pathlib.Path
) -> None:
    idle, _ = podman.run("stubborn", *on_gpu(simulated, 1))
    running = up("")
    running.until("container stubborn was stopped")
    podman("start", idle)
    told = running.until("came back")
    assert "container stubborn came back after it was stopped, started by container stubborn" in told
    running.until("container stubborn is idle for")
    assert podman.pid_of(idle) > 0


SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
for pid in $(cat {unit}/cgroup.procs); do kill -9 $pid; done
"""


@pytest.fixture
def unit() -> Iterator[pathlib.Path]:
    """The cgroup of a service, as systemd makes it."""
    if os.geteuid() != 0:
        pytest.skip("making a cgroup needs root")
    root = pathlib.Path("/sys/fs/cgroup/unified")
    folder = (root if root.exists() else root.parent) / "system.slice" / f"trainer-{os.getpid()}.service"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield folder
    eventually(lambda: folder.rmdir() is None, "an empty cgroup")


def systemctl(simulated: Fallow, tmp_path: pathlib.Path, text: str) -> None:
    """Have this program called instead of systemctl."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(text)
    program.chmod(0o755)
    simulated.environ["PATH"] = f"{program.parent}:{simulated.environ['PATH']}"


def in_unit(unit: pathlib.Path, fallow: Fallow, gpu: int) -> "subprocess.Popen[bytes]":
    """Start a process of the service on a simulated GPU."""
    process = subprocess.Popen(["sleep", "1000"], env=fallow.on(str(gpu)), start_new_session=True)
    (unit / "cgroup.procs").write_text(str(process.pid))
    return process


@pytest.mark.more
def test_an_idle_service_is_stopped_by_systemctl(
    simulated: Fallow, up: StartUp, unit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"
    systemctl(simulated, tmp_path, SYSTEMCTL.format(log=log, unit=unit))
    with in_unit(unit, simulated, 2) as process:
        running = up("")
        gone = running.until(f"{unit.name} was stopped")
        assert f"systemd was told to stop {unit.name}" in gone
        assert process.wait(LIMIT_S) == -9
    assert log.read_text() == f"--no-ask-password stop --no-block -- {unit.name}\n"


@pytest.mark.more
def test_an_idle_script_in_a_terminal_of_a_service_is_stopped_and_the_rest_of_the_service_goes_on(
    simulated: Fallow, up: StartUp, unit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    systemctl(simulated, tmp_path, SYSTEMCTL.format(log=tmp_path / "log", unit=unit))
    notebooks = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    (unit / "cgroup.procs").write_text(str(notebooks.pid))
    script, terminal = pty.fork()
    if script == 0:
        os.execvpe("sleep", ["sleep", "1000"], simulated.on("2"))
    try:
        (unit / "cgroup.procs").write_text(str(script))
        running = up("")
        running.until(f"job {script} (sleep) was stopped")
        assert os.waitpid(script, 0)[1] == signal.SIGTERM
        assert notebooks.poll() is None
        assert not (tmp_path / "log").exists()
    finally:
        os.close(terminal)
        end(notebooks)
