"""Jobs on simulated GPUs, to look at."""

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.stopped import SLEEPER, Job

Start = Callable[..., Job]


@pytest.fixture
def start(simulated: Fallow) -> Iterator[Start]:
    """Start a job on a GPU."""
    started: list[Job] = []

    def make(gpu: str, script: str = SLEEPER) -> Job:
        started.append(Job(simulated.on(gpu), script))
        return started[-1]

    yield make
    for job in started:
        job.end()
