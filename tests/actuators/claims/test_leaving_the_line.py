"""A launch whose wait is interrupted leaves nothing in the claim folder."""

import pathlib
import signal
import subprocess

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

WAITS = [("run", "--wait", "--idle-timeout", "1h", "--", "true"), ("pick", "--wait")]


def places(fallow: Fallow) -> list[str]:
    """The files of launches that wait."""
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
    assert len(places(fallow)) == 1
    return waiting


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_a_signal_ends_a_wait_and_leaves_no_place(
    simulated: Fallow, words: tuple[str, ...], number: signal.Signals
) -> None:
    waiting = in_line(simulated, *words)
    waiting.send_signal(number)
    _, rest = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == -number
    assert "Traceback" not in rest
    assert places(simulated) == []
