"""F38: a clock that is set far ahead, to where Python can hardly count, breaks nothing."""

import pathlib
import subprocess
import time

import pytest

from tests.conftest import Fallow
from tests.places import REPOSITORY

pytestmark = pytest.mark.more

YEAR_9000_S = 221_845_392_000
LAST_S = 9_223_000_000  # some days before Python's last second, in the year 2262


@pytest.fixture(scope="module")
def far_clock(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What puts the clock ahead for whoever is started with it."""
    made = tmp_path_factory.mktemp("clock") / "far_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(REPOSITORY / "tests" / "far_clock.c")], check=True)
    return made


def set_clock(fallow: Fallow, far_clock: pathlib.Path, to_s: int) -> None:
    fallow.environ |= {"LD_PRELOAD": str(far_clock), "FAR_CLOCK": str(to_s - round(time.time()))}


def test_at_the_end_of_pythons_time_all_is_recorded_and_told(simulated: Fallow, far_clock: pathlib.Path) -> None:
    set_clock(simulated, far_clock, LAST_S)
    assert simulated("up", "--for", "2s", "--listen", "127.0.0.1:0").returncode == 0
    for form in ("table", "json", "csv", "html"):
        done = simulated("report", "--format", form)
        assert (done.returncode, done.stderr) == (0, "")
        assert "NVIDIA H100" in done.stdout
    assert "2262" in simulated("report", "--by", "day").stdout


@pytest.mark.parametrize(
    "words", [("status",), ("why",), ("why", "0"), ("report",), ("report", "--format", "json"), ("pick",)]
)
def test_beyond_it_no_command_breaks(simulated: Fallow, far_clock: pathlib.Path, words: tuple[str, ...]) -> None:
    set_clock(simulated, far_clock, YEAR_9000_S)
    done = simulated(*words)
    assert done.returncode == 0, done.stderr
    assert "mistake" not in done.stderr


def test_beyond_it_a_daemon_says_that_it_cannot_count(simulated: Fallow, far_clock: pathlib.Path) -> None:
    set_clock(simulated, far_clock, YEAR_9000_S)
    done = simulated("up", "--for", "1s")
    assert "the clock of this machine is set beyond the year 2262, where Python cannot count; set it" in done.stderr
    assert "mistake" not in done.stderr
