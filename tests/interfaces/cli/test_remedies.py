"""Where something is missing or mistyped, fallow says so, why, and what to do."""

import pathlib
import signal

import pytest

from tests.actuators.claims.test_users import ADA, Users, users
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

__all__ = ["users"]


@pytest.fixture
def shut(users: Users, open_folder: pathlib.Path) -> Users:
    """A user whose HOME is that of somebody else, as after su without a dash."""
    home = open_folder / "home-of-another"
    home.mkdir(mode=0o700)
    users.environ["HOME"] = str(home)
    return users


@pytest.mark.as_root
@pytest.mark.parametrize("words", [("stop", "all", "--dry-run"), ("up",)])
def test_a_home_of_another_user_is_told_with_what_to_set(shut: Users, words: tuple[str, ...]) -> None:
    code, _, err = shut.run(ADA, *words)
    assert code == 77
    assert "name a config that you may read, here or in FALLOW_CONFIG, or set HOME to a folder of yours" in err


@pytest.mark.as_root
def test_without_a_home_that_can_be_used_there_is_no_journal_and_why_says_so(shut: Users) -> None:
    code, out, err = shut.run(ADA, "why")
    assert "journal is empty" not in out
    assert (code, out) == (77, ""), err
    assert "cannot be read: Permission denied; set FALLOW_STATE_DIR to a folder of yours" in err
    assert "; set FALLOW_STATE_DIR to a folder of yours" in shut.run(ADA, "report")[2]
    shut.environ["HOME"] = "/nowhere-at-all"
    code, out, err = shut.run(ADA, "why")
    assert code == 0, err
    assert out.startswith(
        "there is no journal: / is not yours to write, and /nowhere-at-all/.local/state/fallow/simulated is not"
    )
    assert "set FALLOW_STATE_DIR to a folder of yours" in out


@pytest.mark.as_root
def test_that_nothing_is_kept_is_told_with_the_variable_to_set(shut: Users) -> None:
    shut.environ["HOME"] = "/nowhere-at-all"
    _, _, err = shut.run(ADA, "guard", "--dry-run", "--gpus", "99")
    assert "set FALLOW_STATE_DIR to a folder of yours" in err


@pytest.mark.as_root
def test_a_place_where_no_daemon_can_be_is_told_with_the_variable_to_set(shut: Users) -> None:
    shut.environ |= {"HOME": "/nowhere-at-all", "FALLOW_SOCKET": "/nowhere-at-all/fallow.sock"}
    code, _, err = shut.run(ADA, "up")
    assert code == 77
    assert err.endswith("Permission denied; name a folder of your own with FALLOW_SOCKET\n")


@pytest.mark.as_root
def test_a_config_that_was_named_and_cannot_be_read_is_told_so(shut: Users) -> None:
    code, _, err = shut.run(ADA, "check", f"{shut.environ['HOME']}/fallow.toml")
    assert code == 77
    assert "Permission denied; name a config that you may read, here or in" in err


def test_a_machine_without_a_driver_is_told_what_works_on_the_command_line_and_in_python(driverless: Fallow) -> None:
    assert driverless("status").stderr.endswith(
        "; to try fallow without a GPU, add --simulate or set FALLOW_SIMULATE=8xH100\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_which_signal_ended_it(simulated: Fallow, number: int) -> None:
    running = Fill(simulated.start("up"))
    running.until("up, ")
    running.process.send_signal(number)
    assert running.until("ended by ").endswith(f"ended by {signal.Signals(number).name}")
    assert running.process.wait(LIMIT_S) == -number


def test_a_mistyped_user_to_ignore_is_refused_with_the_one_that_was_meant(simulated: Fallow) -> None:
    done = simulated("fill", "--ignore-user", "nobdy", "--", "true")
    assert done.returncode == 2
    assert "there is no user 'nobdy' on this machine; did you mean nobody?" in done.stderr
