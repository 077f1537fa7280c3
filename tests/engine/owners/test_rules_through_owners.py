"""Idle rules of a real `fallow up` against a real Jupyter server and real containers, on simulated GPUs.

In each test one job that must be stopped and one that must not are judged side by side: when the first is gone, the
second was seen for just as long.
"""

import pytest

from tests.conftest import Fallow
from tests.engine.owners.conftest import StartUp
from tests.places import PYTHON
from tests.real_owners import Jupyter, Podman, eventually


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
    running = up()
    gone = running.until("container vllm-prod was stopped")
    assert "its engine stopped the container" in gone
    assert podman.pid_of(idle) == 0
    assert podman.pid_of(kept) == kept_pid
    assert "container keeper" in simulated("status", COLUMNS="120").stdout


@pytest.mark.engine
@pytest.mark.more
def test_what_comes_back_is_told_and_from_then_on_only_reported(
    simulated: Fallow, up: StartUp, podman: Podman
) -> None:
    idle, _ = podman.run("stubborn", *on_gpu(simulated, 1))
    running = up()
    running.until("container stubborn was stopped")
    podman("start", idle)
    told = running.until("came back")
    assert "container stubborn came back after it was stopped, started by container stubborn" in told
    running.until("container stubborn is idle for")
    assert podman.pid_of(idle) > 0
