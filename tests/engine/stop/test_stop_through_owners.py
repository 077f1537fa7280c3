"""`fallow stop` of what a real Jupyter server, a real podman and a stand-in for systemctl run, on simulated GPUs."""

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.owners.test_rules_through_owners import on_gpu
from tests.interfaces.cli.stopped import is_running, on_terminal
from tests.real_owners import Jupyter, Podman, eventually

DEAF = ("sh", "-c", "trap '' TERM; while true; do sleep 1; done")


@pytest.mark.engine
def test_a_notebook_is_ended_by_its_server_for_good_and_another_one_is_not(
    simulated: Fallow, jupyter: Jupyter
) -> None:
    kept, kept_pid = jupyter.open("proj/thesis.ipynb")
    ended, _ = jupyter.open("train.ipynb")
    done = simulated("stop", "notebook:train", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "notebook train.ipynb: " in done.stdout
    assert "its Jupyter server shut the kernel down" in done.stdout
    assert jupyter.kernels() == [kept]
    assert jupyter.pid_of(ended) is None
    assert jupyter.pid_of(kept) == kept_pid
    wrong = simulated("stop", "notebook:thesiss.ipynb", "--yes")
    assert (wrong.returncode, "did you mean thesis.ipynb?" in wrong.stderr) == (1, True), wrong.stderr


@pytest.mark.engine
def test_a_server_that_falls_silent_after_the_question_gets_its_kernel_no_signal(
    simulated: Fallow, jupyter: Jupyter
) -> None:
    _, pid = jupyter.open("train.ipynb")
    with on_terminal(simulated, "0", "--grace", "0s") as asked:
        asked.until("[y/N] ")
        jupyter.process.send_signal(signal.SIGSTOP)
        try:
            asked.type("y\n")
            assert asked.ended() == 1
            assert asked.process.stdout is not None
            assert b"left alone: " in asked.process.stdout.read()
            assert is_running(pid)
        finally:
            jupyter.process.send_signal(signal.SIGCONT)


@pytest.mark.engine
def test_a_container_that_its_engine_always_restarts_stays_gone_though_it_ignores_the_signal(
    simulated: Fallow, podman: Podman
) -> None:
    container, _ = podman.run("vllm-prod", "--restart=always", *on_gpu(simulated, 1), command=DEAF)
    done = simulated("stop", "container:vllm-prod", "--yes", "--grace", "1s", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (told,) = json.loads(done.stdout)["jobs"]
    assert (told["outcome"], told["came_back"]) == ("stopped", False)
    assert told["owner"]["name"] == "vllm-prod"
    assert podman.pid_of(container) == 0


@pytest.mark.engine
@pytest.mark.more
def test_a_container_with_a_label_and_one_whose_engine_does_not_answer_are_left_alone(
    simulated: Fallow, podman: Podman, tmp_path: pathlib.Path
) -> None:
    kept, pid = podman.run("keeper", "--label", "fallow.protect=yes", *on_gpu(simulated, 1))
    done = simulated("stop", "1", "--yes")
    assert done.returncode == 1
    assert "the label fallow.protect=yes of container keeper protects it; to stop it all the same" in done.stdout
    silent = simulated("stop", "1", "--yes", FALLOW_CONTAINER_ENGINE=str(tmp_path / "nobody.sock"))
    assert silent.returncode == 1
    assert "its owner cannot be asked" in silent.stdout
    assert "stop the container with its engine" in silent.stdout
    assert podman.pid_of(kept) == pid


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


def test_a_service_that_systemctl_may_not_stop_gets_no_signal(
    simulated: Fallow, unit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho 'Access denied' >&2\nexit 4\n")
    (tmp_path / "systemctl").chmod(0o755)
    simulated.environ["PATH"] = f"{tmp_path}:{simulated.environ['PATH']}"
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("2"), start_new_session=True) as process:
        (unit / "cgroup.procs").write_text(str(process.pid))
        done = simulated("stop", "2", "--yes", "--grace", "0s")
        assert done.returncode == 1
        assert "its owner did not stop it: " in done.stdout
        assert "Access denied" in done.stdout
        assert is_running(process.pid)
        process.kill()
