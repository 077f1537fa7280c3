"""What people see of launches that wait, and how they end one."""

import json
import pathlib

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.waitline import Place
from fallow.core.reservations import Note
from tests.conftest import Fallow
from tests.harness import ManualClock
from tests.terminal import Terminal

FIRST = "GPU-fa110000-0000-4000-8000-000000000000"


def test_the_line_is_visible(simulated: Fallow) -> None:
    place = Place(ClaimFolder(simulated.environ["FALLOW_CLAIM_DIR"]), ManualClock(), Note(), [FIRST])
    assert [gpu["waiting"] for gpu in json.loads(simulated("status", "--json", "0,1").stdout)["gpus"]] == [1, 0]
    assert "1 waiting for it" in simulated("status", "-l", "0").stdout
    place.close()


def test_claims_that_cannot_be_read_show_in_the_table(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "claims").symlink_to("/nowhere")
    done = simulated("status", COLUMNS="120")
    assert done.returncode == 0
    assert "claim unknown" in done.stdout
    assert "none available, " in done.stdout, "unknown is never idle"
    assert "who has claimed it is unknown" in simulated("status", "-l").stdout


@pytest.mark.more
def test_ctrl_c_stops_the_script_around_us_too(simulated: Fallow) -> None:
    job = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo up; exec sleep 1000")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    script = "for i in 1 2 3; do fallow run --wait -- true; echo went on; done; echo reached the end"
    with Terminal(["setsid", "--ctty", "--wait", "bash", "-c", script], simulated.environ) as shell:
        shell.until("waiting")
        shell.type("\x03")
        assert shell.ended() != 0
    assert "went on" not in shell.shown
    assert "reached the end" not in shell.shown
    job.kill()
