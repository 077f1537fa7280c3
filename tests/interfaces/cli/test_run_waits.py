"""What several launches, lost GPUs and a Ctrl-C do to a launch that waits."""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import Process, World
from tests.terminal import Terminal

pytestmark = pytest.mark.more

GIB = 2**30


def held(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    job = fallow.start("run", *words, "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    return job


def test_the_line_is_visible(simulated: Fallow) -> None:
    job = held(simulated, "--gpus", "0")
    waiting = simulated.start("run", "--gpus", "0", "--wait", "--", "echo", "mine")
    assert waiting.stderr is not None
    waiting.stderr.readline()
    gpu = json.loads(simulated("status", "--json", "0").stdout)["gpus"][0]
    assert gpu["waiting"] == 1
    assert "1 waiting for it" in simulated("status", "-l", "0").stdout
    job.communicate("\n", timeout=LIMIT_S)
    assert waiting.communicate(timeout=LIMIT_S)[0] == "mine\n"


def test_a_card_that_appears_while_somebody_waits_is_given_to_them(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(cards=2)
    world[0].compute, world[0].memory_used = [Process(os.getpid(), GIB)], GIB
    world.fault("nvmlDeviceGetUUID", card=1, error=999)
    waiting = fallow.start("run", "--wait", "60s", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert waiting.stderr is not None
    assert "waiting" in waiting.stderr.readline()
    world.heal()
    assert waiting.communicate(timeout=LIMIT_S)[0] == f"{world[1].uuid}\n"


def test_ctrl_c_stops_the_script_around_us_too(simulated: Fallow) -> None:
    job = held(simulated, "-n", "4")
    script = "for i in 1 2 3; do fallow run --wait -- true; echo went on; done; echo reached the end"
    with Terminal(["setsid", "--ctty", "--wait", "bash", "-c", script], simulated.environ) as shell:
        shell.until("waiting")
        shell.type("\x03")
        assert shell.ended() != 0
    assert "went on" not in shell.shown
    assert "reached the end" not in shell.shown
    job.communicate("\n", timeout=LIMIT_S)


def test_claims_that_cannot_be_read_show_in_the_table(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "claims").symlink_to("/nowhere")
    done = simulated("status", COLUMNS="120")
    assert done.returncode == 0
    assert "claim unknown" in done.stdout
    assert "none available, " in done.stdout, "unknown is never idle"
    assert "who has claimed it is unknown" in simulated("status", "-l").stdout
