"""Two processes of one job on the stand-in driver."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.cuda_process import CudaProcess
from tests.engine.park.parked_jobs import MIB, on_the_card
from tests.standin import World


@pytest.fixture
def jobs(world: World, library: pathlib.Path) -> Iterator[list[CudaProcess]]:
    """Two processes of one job on GPU 0, with 20 and 10 MiB."""
    started = [on_the_card(world, library, size) for size in (20 * MIB, 10 * MIB)]
    yield started
    for process in started:
        process.kill()
