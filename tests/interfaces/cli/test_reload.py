"""`fallow up --reload` asks the daemon, and says what came of it."""

import pathlib

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import ME


@pytest.fixture
def up(simulated: Fallow) -> Fill:
    """A daemon that can be asked."""
    running = simulated.up("[page]\nenabled = false\n")
    running.until("up, with")
    return running


@pytest.fixture
def file(simulated: Fallow) -> pathlib.Path:
    return simulated.home / "fallow.toml"


def test_a_config_without_a_mistake_is_loaded(simulated: Fallow, file: pathlib.Path, up: Fill) -> None:
    file.write_text("[page]\nenabled = false\n[machine]\nprice = 3\n")
    done = simulated("up", "--reload")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"config reloaded: {file}\n", "")
    up.until("config reloaded (reload 1)")


def test_every_mistake_is_told_with_its_line_and_the_old_one_stays(
    simulated: Fallow, file: pathlib.Path, up: Fill
) -> None:
    file.write_text(f"[machine]\nevry = 1\n[[filler]]\nname = 'a'\nuser = '{ME}'\ncommand = 'no-such-command'\n")
    done = simulated("up", "--reload")
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{file}:2: machine.evry: there is no such key in [machine] (did you mean every?)" in done.stderr
    assert f"{file}:6: filler[1].command: there is no command 'no-such-command'" in done.stderr
    up.until("the old one stays in force")
    file.write_text("")
    assert simulated("up", "--reload", FALLOW_SIMULATE="").returncode == 0, (
        "whatever the machine, it is the same daemon"
    )


def test_without_a_daemon_it_says_so(simulated: Fallow) -> None:
    done = simulated("up", "--reload")
    assert (done.returncode, done.stdout) == (69, "")
    assert f"there is no fallow up of {ME} to reload" in done.stderr
    assert "start one: fallow up" in done.stderr
