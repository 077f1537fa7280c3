"""One daemon for each user scope, by a lock that a crash cannot leave behind."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from fallow.actuators.host.single_instance import Instance, Running
from fallow.core.errors import AlreadyRunning, NotPermitted
from tests.places import LIMIT_S

ME = Running(os.getpid(), "ada", 1000.0, "/etc/fallow/fallow.toml")
HOLDER = """
import sys, os
from fallow.actuators.host.single_instance import Instance, Running
held = Instance(sys.argv[1], Running(os.getpid(), "ada", 1000.0, None), 1000.0)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_told_who_runs(tmp_path: pathlib.Path) -> None:
    first = Instance(str(tmp_path / "run"), ME, 1000.0)
    with pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()} of ada, for 1m, with /etc/fallow/fallow.toml"):
        Instance(str(tmp_path / "run"), Running(1, "bob", 1060.0), 1060.0)
    first.close()
    Instance(str(tmp_path / "run"), ME, 1000.0).close()


def test_what_a_kill_leaves_binds_nobody(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunning, match=rf"pid {holder.pid} of ada, for 2s, without a config"):
            Instance(folder, ME, 1002.0)
        holder.send_signal(signal.SIGKILL)
        holder.wait(LIMIT_S)
    Instance(folder, ME, 1000.0).close()


@pytest.mark.parametrize("label", [b"", b"no json", b"[]", b'{"pid": "x"}', b"\xff" * 9000])
def test_a_label_that_makes_no_sense_hides_nobody(tmp_path: pathlib.Path, label: bytes) -> None:
    first = Instance(str(tmp_path), ME, 1000.0)
    (tmp_path / "fallow.lock").write_bytes(label)
    with pytest.raises(AlreadyRunning, match="fallow up runs already"):
        Instance(str(tmp_path), ME, 1000.0)
    first.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fallow.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPermitted, match="name a folder of your own with FALLOW_SOCKET"):
        Instance(str(tmp_path), ME, 1000.0)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_others_could_open_is_refused(tmp_path: pathlib.Path) -> None:
    Instance(str(tmp_path), ME, 1000.0).close()
    assert (tmp_path / "fallow.lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "fallow.lock").chmod(0o644)
    with pytest.raises(NotPermitted, match="the daemon's lock; remove it"):
        Instance(str(tmp_path), ME, 1000.0)


@pytest.mark.as_root
def test_a_folder_that_somebody_else_made_first_is_refused_with_a_sentence(open_folder: pathlib.Path) -> None:
    """V9"""
    folder = open_folder / "run"
    folder.mkdir()
    os.chown(folder, 61002, 61002)
    with pytest.raises(NotPermitted, match="belongs to user 61002"):
        Instance(str(folder), ME, 1000.0)


def test_a_folder_that_others_may_write_to_is_refused_with_a_sentence(tmp_path: pathlib.Path) -> None:
    """V9"""
    tmp_path.chmod(0o777)
    with pytest.raises(NotPermitted, match="others may write to"):
        Instance(str(tmp_path), ME, 1000.0)
