"""`fallow stop` on a GPU of another user whom the asker may not see there, but root's daemon does."""

import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.actuators.claims.test_users import ADA, Users
from tests.actuators.claims.test_users import users as simulated_users  # noqa: F401  a fixture
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.waiting import until

pytestmark = pytest.mark.as_root
Start = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def users(simulated_users: Users, open_folder: pathlib.Path) -> Users:  # noqa: F811
    """Users of a simulated machine that root's daemon watches: nobody reads the environment of others."""
    config = open_folder / "fallow.toml"
    config.write_text("[terminals]\nusers = 'ignore'\n[page]\nenabled = false\n")
    simulated_users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    Fill(simulated_users.start(0, "up", "--config", str(config))).until("up, with")
    return simulated_users


@pytest.fixture
def start(users: Users) -> Iterator[Start]:
    """Start a process of a user on GPU 1."""
    started: list[subprocess.Popen[bytes]] = []

    def make(uid: int) -> "subprocess.Popen[bytes]":
        environ = {**users.environ, "CUDA_VISIBLE_DEVICES": "1"}
        process = subprocess.Popen(
            ["sleep", "1000"], user=uid, group=uid, extra_groups=[], start_new_session=True, cwd="/", env=environ
        )
        started.append(process)
        until(lambda: str(process.pid) in users.run(0, "status", "-l")[1])
        return process

    yield make
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


@pytest.mark.more
def test_a_gpu_of_another_is_never_said_to_be_empty(users: Users, start: Start) -> None:
    theirs = start(0)
    code, out, err = users.run(ADA, "stop", "1", "--dry-run")
    assert (code, out) == (77, ""), err
    assert f"root's pid {theirs.pid} (sleep) is on GPU 1, so nothing is stopped: that needs root" in err


@pytest.mark.more
def test_a_plan_for_a_shared_gpu_names_the_job_of_the_other(users: Users, start: Start) -> None:
    theirs, _ = start(0), start(ADA)
    code, out, err = users.run(ADA, "stop", "1", "--dry-run")
    assert (code, out) == (77, ""), err
    assert f"root's pid {theirs.pid} (sleep) is on GPU 1" in err
    assert "`fallow stop mine` stops yours alone" in err
