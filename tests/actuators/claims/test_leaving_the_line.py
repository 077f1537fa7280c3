"""Who waits leaves nothing in the claim folder, however the wait ends; what is killed is swept by the next."""

import pathlib
import signal
import subprocess

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.waiting import end

pytestmark = pytest.mark.more

WAITS = [("run", "--wait", "--idle-timeout", "1h", "--", "true"), ("pick", "--wait")]


def labels(fallow: Fallow) -> list[str]:
    """What the folder holds besides the files of GPUs."""
    return [path.name for path in pathlib.Path(fallow.environ["FALLOW_CLAIM_DIR"]).glob("wait-*")]


@pytest.fixture
def full(simulated: Fallow) -> subprocess.Popen[str]:
    """A job that has all GPUs."""
    job = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    return job


def in_line(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    waiting = fallow.start(*words)
    assert waiting.stderr is not None
    assert "waiting for 1 GPU" in waiting.stderr.readline()
    assert len(labels(fallow)) == 1
    return waiting


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_a_signal_ends_a_wait_and_leaves_no_label(
    simulated: Fallow, words: tuple[str, ...], number: signal.Signals
) -> None:
    waiting = in_line(simulated, *words)
    waiting.send_signal(number)
    _, rest = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == -number
    assert "Traceback" not in rest
    assert labels(simulated) == []


@pytest.mark.parametrize("words", [("run", "--", "true"), ("pick",)], ids=" ".join)
def test_the_label_of_a_launch_that_was_killed_is_swept_by_the_next_one_that_does_not_wait(
    simulated: Fallow, full: subprocess.Popen[str], words: tuple[str, ...]
) -> None:
    waiting = in_line(simulated, "run", "--wait", "--", "true")
    end(waiting)
    assert len(labels(simulated)) == 1
    full.communicate("\n", timeout=LIMIT_S)
    assert simulated(*words).returncode == 0
    assert labels(simulated) == []
