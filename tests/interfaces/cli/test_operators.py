"""Operators: members of the group that the config names do on the socket what else only root may."""

import grp
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import REPOSITORY

pytestmark = pytest.mark.as_root

GROUP = min((each for each in grp.getgrall() if 0 < each.gr_gid < 61000), key=lambda each: each.gr_gid)
MEMBER, OTHER = f"61001:{GROUP.gr_gid}", "61002"
Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def up(simulated: Fallow, open_folder: pathlib.Path) -> Callable[[str], tuple[Fill, Ask]]:
    """Starts a daemon whose operators are a group; returns it, and what asks it as a user."""
    places = {
        "FALLOW_SOCKET": str(open_folder / "run" / "fallow.sock"),
        "FALLOW_CLAIM_DIR": str(open_folder / "claims"),
        "FALLOW_SIMULATE": simulated.environ["FALLOW_SIMULATE"],
    }

    def ask(who: str, *words: str) -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", "tests.as_user", who, *words]
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **places}
        return subprocess.run(line, env=environ, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    def start(operators: str) -> tuple[Fill, Ask]:
        config = open_folder / "fallow.toml"
        config.write_text(f'[page]\nenabled = false\n[machine]\noperators = "{operators}"\n')
        running = Fill(simulated.start("up", "--config", str(config), **places))
        running.until("up, with")
        return running, ask

    return start


def test_a_member_of_the_group_reloads_the_daemon_and_nobody_else_does(
    up: Callable[[str], tuple[Fill, Ask]],
) -> None:
    running, ask = up(GROUP.gr_name)
    refused = ask(OTHER, "up", "--reload")
    assert (refused.returncode, refused.stdout) == (77, "")
    assert not running.told("config reloaded")
    done = ask(MEMBER, "up", "--reload")
    assert done.returncode == 0, done.stderr
    running.until("config reloaded (reload 1)")


def test_a_member_of_the_group_releases_any_protection_and_nobody_else_does(
    up: Callable[[str], tuple[Fill, Ask]],
) -> None:
    _, ask = up(GROUP.gr_name)
    placed = ask("61003", "protect", "gpu:0", "--for", "1h", "--json")
    assert placed.returncode == 0, placed.stderr
    number = str(json.loads(placed.stdout)["protections"][0]["id"])
    assert ask(OTHER, "protect", "--release", number).returncode == 77
    assert number in ask(OTHER, "protect", "--list", "--json").stdout
    done = ask(MEMBER, "protect", "--release", number)
    assert done.returncode == 0, done.stderr
    assert number not in ask(OTHER, "protect", "--list", "--json").stdout


def test_a_group_that_does_not_exist_makes_nobody_an_operator(up: Callable[[str], tuple[Fill, Ask]]) -> None:
    running, ask = up("no-such-group")
    assert running.told("there is no group 'no-such-group' on this machine")
    assert ask(MEMBER, "up", "--reload").returncode == 77
    assert ask(OTHER, "up", "--reload").returncode == 77
