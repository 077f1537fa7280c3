"""`m` in `fallow top`: which of my jobs were stopped, and why."""

import pytest

from tests.conftest import Fallow
from tests.interfaces.top.conftest import Start
from tests.interfaces.top.driven import Driver, drive
from tests.places import ME


@pytest.mark.more
def test_a_person_finds_why_their_job_was_stopped_without_knowing_on_which_gpu_it_was(
    simulated: Fallow, start: Start
) -> None:
    job = start("1")
    assert simulated("stop", "1", "--yes").returncode == 0

    async def ask(top: Driver) -> None:
        await top.until(lambda: "m My stops" in top.text.splitlines()[-1])
        assert top.text.splitlines()[-1].rstrip().endswith("q End"), "all keys fit 80 columns"
        await top.press("m")
        await top.sees("your jobs, and which were stopped")
        await top.sees(f"ago: {ME}'s job {job.pid} (python")
        await top.sees("was stopped: ")
        await top.press("m")
        await top.until(lambda: "and which were stopped" not in top.text)

    drive(simulated, ask)
