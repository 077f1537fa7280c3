"""`fallow stop` of what a real Jupyter server, a real podman and a stand-in for systemctl run, on simulated GPUs."""

import json
import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.owners.test_rules_through_owners import SYSTEMCTL, in_unit, on_gpu, systemctl, unit
from tests.interfaces.cli.stopped import is_running, on_terminal
from tests.places import LIMIT_S
from tests.real_owners import Jupyter, Podman

__all__ = ["unit"]
DEAF = ("sh", "-c", "trap '' TERM; while true; do sleep 1; done")


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


@pytest.mark.more
def test_a_service_is_stopped_by_systemctl(simulated: Fallow, unit: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    systemctl(simulated, tmp_path, SYSTEMCTL.format(log=log, unit=unit))
    with in_unit(unit, simulated, 2) as process:
        done = simulated("stop", f"unit:{unit.name.removesuffix('.service')}", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    assert f"systemd was told to stop {unit.name}" in done.stdout
    assert log.read_text() == f"--no-ask-password stop --no-block -- {unit.name}\n"


def test_a_service_that_systemctl_may_not_stop_gets_no_signal(
    simulated: Fallow, unit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    systemctl(simulated, tmp_path, "#!/bin/sh\necho 'Access denied' >&2\nexit 4\n")
    with in_unit(unit, simulated, 2) as process:
        done = simulated("stop", "2", "--yes", "--grace", "0s")
        assert done.returncode == 1
        assert "its owner did not stop it: " in done.stdout
        assert "Access denied" in done.stdout
        assert is_running(process.pid)
        process.kill()
