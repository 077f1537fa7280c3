"""One daemon for each user scope, by a lock that a crash cannot leave behind."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from fallow.actuators.host.single_instance import Instance
from fallow.core.errors import AlreadyRunning, NotPermitted
from tests.places import LIMIT_S

HOLDER = """
import sys
from fallow.actuators.host.single_instance import Instance
held = Instance(sys.argv[1], "pid 1 of ada")
held.write("pid 1 of ada, with\\x1b[31m /etc/fallow.toml")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_daemon_is_told_which_one_runs_and_a_killed_one_keeps_none_from_starting(
    tmp_path: pathlib.Path,
) -> None:
    folder = str(tmp_path / "run")
    command = [sys.executable, "-c", HOLDER, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunning) as refused:
            Instance(folder, "pid 2 of bob")
        assert str(refused.value) == "fallow up runs already: pid 1 of ada, with?[31m /etc/fallow.toml"
        holder.send_signal(signal.SIGKILL)
        holder.wait(LIMIT_S)
    Instance(folder, "pid 2 of bob").close()
    assert (tmp_path / "run" / "fallow.lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fallow.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPermitted, match="name a folder of your own with FALLOW_SOCKET"):
        Instance(str(tmp_path), "me")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.as_root
def test_a_folder_that_somebody_else_made_first_is_refused_with_a_sentence(open_folder: pathlib.Path) -> None:
    """V9"""
    folder = open_folder / "run"
    folder.mkdir()
    os.chown(folder, 61002, 61002)
    with pytest.raises(NotPermitted, match="belongs to user 61002"):
        Instance(str(folder), "me")
