"""The state folder is ours alone, or it is not used."""

import os
import pathlib
import subprocess
import sys

import pytest

from fallow.actuators.files.own_folder import own_folder, private_file
from fallow.core.errors import FallowError, NotPermitted
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY

US, NEIGHBOUR = 4242, 4243


def as_user(fallow: Fallow, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """fallow as somebody whom the password database does not know, with only these variables."""
    return subprocess.run(
        [sys.executable, "-m", "tests.as_user", str(US), *words],
        cwd=REPOSITORY,
        env={"PATH": fallow.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "FALLOW_SIMULATE": "1xT4", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_a_folder_and_a_file_in_it_are_made_for_us_alone(tmp_path: pathlib.Path) -> None:
    made = own_folder(str(tmp_path / "a" / "b"))
    assert made == str(tmp_path / "a" / "b")
    assert os.stat(made).st_mode & 0o777 == 0o700
    path = private_file(made, "journal.db")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert private_file(made, "journal.db") == path


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)
    with pytest.raises(NotPermitted, match=r"others may write to .*: chmod go-w"):
        own_folder(str(tmp_path / "state"))


def test_a_link_and_what_is_no_folder_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(".")
    with pytest.raises(FallowError, match="it is a symbolic link or no folder"):
        own_folder(str(tmp_path / "link"))
    (tmp_path / "file").touch()
    with pytest.raises(FallowError, match="it is no folder"):
        own_folder(str(tmp_path / "file"))
    with pytest.raises(FallowError, match="Not a directory"):
        own_folder(str(tmp_path / "file" / "below"))


@pytest.mark.as_root
def test_a_folder_of_somebody_else_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fallow").mkdir(mode=0o700)
    os.chown(tmp_path / "fallow", NEIGHBOUR, NEIGHBOUR)
    with pytest.raises(NotPermitted, match=f"user {NEIGHBOUR}"):
        own_folder(str(tmp_path / "fallow"))


@pytest.mark.as_root
def test_root_looks_where_root_is_whatever_home_sudo_has_kept() -> None:
    assert World({"HOME": "/home/somebody", "XDG_STATE_HOME": "/home/somebody/x"}).state_folder == "/var/lib/fallow"


@pytest.mark.as_root
def test_without_a_home_there_is_an_error_that_says_what_to_do_and_nothing_in_tmp(fallow: Fallow) -> None:
    done = as_user(fallow, "report")
    assert done.returncode == 125
    assert f"HOME is not set, and user {US} has no home; set FALLOW_STATE_DIR" in done.stderr
    assert "/tmp" not in done.stderr
