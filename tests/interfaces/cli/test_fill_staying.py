"""`fallow burn` as a filler: it frees its memory first and ends a moment later, unless a launch waits for its end."""

import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, until_there
from tests.places import LIMIT_S


@pytest.fixture
def fill(simulated: Fallow) -> Fill:
    """Simulated GPU 0 with a burn on it that leaves in good order."""
    fill = Fill(simulated.start("fill", "--gpus", "0", "--idle-for", "0", "--grace", "20s", "--", "fallow", "burn"))
    fill.until("filling it")
    until_there(fill.process.pid, "fallow.engine.burn.worker")
    return fill


@pytest.fixture
def newcomer(simulated: Fallow) -> Iterator[Callable[[], None]]:
    """Somebody who comes to simulated GPU 0."""
    came: list[subprocess.Popen[bytes]] = []

    def come() -> None:
        environ = {**simulated.environ, "CUDA_VISIBLE_DEVICES": "0"}
        came.append(subprocess.Popen(["sleep", "1000"], env=environ))

    yield come
    for process in came:
        process.kill()
        process.wait(LIMIT_S)


def test_burn_stays_for_a_second_without_its_memory(fill: Fill, newcomer: Callable[[], None]) -> None:
    newcomer()
    assert " ms:" not in fill.until("given back after")


def test_burn_leaves_at_once_for_a_launch_that_has_claimed_the_gpu(fill: Fill, simulated: Fallow) -> None:
    assert simulated("run", "--gpus", "0", "--", "true").returncode == 0
    assert " ms:" in fill.until("given back after")
