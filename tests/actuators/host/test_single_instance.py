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


LOCKER = """
import fcntl, os, struct, sys
os.setgroups([])
os.setresgid(61002, 61002, 61002)
os.setresuid(61002, 61002, 61002)
fd = os.open(sys.argv[1], int(sys.argv[2]))
kind = fcntl.F_RDLCK if int(sys.argv[2]) == os.O_RDONLY else fcntl.F_WRLCK
fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, 0, 0, 0, 0))
print("locked", flush=True)
sys.stdin.read()
"""


def neighbour(path: pathlib.Path, flags: int) -> subprocess.Popen[str]:
    """Another user, who locks the file if they can open it."""
    return subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(path), str(flags)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.as_root
def test_a_neighbour_cannot_open_the_lock_that_root_s_daemon_leaves(open_folder: pathlib.Path) -> None:
    """V9"""
    folder = open_folder / "run"
    Instance(str(folder), ME, 1000.0).close()
    with neighbour(folder / "fallow.lock", os.O_RDONLY) as other:
        out, err = other.communicate(timeout=LIMIT_S)
    assert (out, "PermissionError" in err) == ("", True)
    Instance(str(folder), ME, 1000.0).close()


@pytest.mark.as_root
@pytest.mark.parametrize(("mode", "flags"), [(0o644, os.O_RDONLY), (0o666, os.O_RDWR)])
def test_a_lock_that_a_neighbour_has_on_a_file_from_before_keeps_nobody_from_starting(
    open_folder: pathlib.Path, mode: int, flags: int
) -> None:
    """V9"""
    folder = open_folder / "run"
    Instance(str(folder), ME, 1000.0).close()
    (folder / "fallow.lock").chmod(mode)
    with neighbour(folder / "fallow.lock", flags) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        first = Instance(str(folder), ME, 1000.0)
        with pytest.raises(AlreadyRunning):
            Instance(str(folder), ME, 1000.0)
        first.close()
        other.communicate(timeout=LIMIT_S)
    assert (folder / "fallow.lock").stat().st_mode & 0o777 == 0o600


def test_a_daemon_of_before_that_still_runs_is_not_overlooked(tmp_path: pathlib.Path) -> None:
    first = Instance(str(tmp_path), ME, 1000.0)
    (tmp_path / "fallow.lock").chmod(0o644)  # as it was made until now
    with pytest.raises(AlreadyRunning):
        Instance(str(tmp_path), ME, 1000.0)
    first.close()


@pytest.mark.as_root
def test_a_folder_that_somebody_else_made_first_is_refused_with_a_sentence(open_folder: pathlib.Path) -> None:
    """V9"""
    folder = open_folder / "run"
    folder.mkdir()
    os.chown(folder, 61002, 61002)
    with pytest.raises(NotPermitted, match=r"belongs to somebody else \(user 61002\)"):
        Instance(str(folder), ME, 1000.0)


def test_a_folder_of_ours_that_others_could_write_to_is_shut_and_that_is_said(tmp_path: pathlib.Path) -> None:
    """V9"""
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    held = Instance(str(folder), ME, 1000.0)
    assert held.said is not None
    assert "others could write" in held.said
    assert folder.stat().st_mode & 0o777 == 0o755
    held.close()
    again = Instance(str(folder), ME, 1000.0)
    assert again.said is None
    again.close()
