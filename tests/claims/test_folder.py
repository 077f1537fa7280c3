"""The claim folder is everybody's, and follows nobody's links."""

import os
import pathlib
import stat

import pytest

from fallow.actuators.claim_folder import ClaimFolder, folder_path
from fallow.core.errors import NotPermitted


def test_the_folder_and_its_files_are_open_to_all_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    before = os.umask(0o077)
    try:
        folder = ClaimFolder(str(tmp_path / "claims"))
        os.close(folder.open("GPU-1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "claims").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "claims" / "GPU-1").stat().st_mode) == 0o666


def test_a_name_cannot_leave_the_folder(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    os.close(folder.open("../MIG-GPU-1/2/0"))
    assert os.listdir(tmp_path) == ["claims"]
    assert os.listdir(tmp_path / "claims") == ["___MIG-GPU-1_2_0"]


def test_a_folder_that_is_a_link_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "claims").symlink_to("real")
    with pytest.raises(NotPermitted, match="symbolic link"):
        ClaimFolder(str(tmp_path / "claims"))


def test_a_file_that_is_a_link_is_refused(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    (tmp_path / "claims" / "GPU-1").symlink_to(tmp_path / "victim")
    with pytest.raises(NotPermitted, match="symbolic link"):
        folder.open("GPU-1")
    assert not (tmp_path / "victim").exists()


def test_a_file_that_is_a_pipe_is_refused_and_does_not_block(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    os.mkfifo(tmp_path / "claims" / "GPU-1")
    with pytest.raises(NotPermitted, match="plain file"):
        folder.open("GPU-1")


def test_a_path_that_is_a_file_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "claims").touch()
    with pytest.raises(NotPermitted, match="cannot open"):
        ClaimFolder(str(tmp_path / "claims"))


def test_looking_at_a_file_that_nobody_made_makes_none(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    assert folder.peek("GPU-1") is None
    assert os.listdir(tmp_path / "claims") == []


def test_the_folder_hangs_on_the_machine_and_not_on_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder_path({"FALLOW_CLAIM_DIR": "/somewhere"}) == "/somewhere"
    there = os.path.isdir("/run/lock")
    everybodys = there and stat.S_IMODE(os.stat("/run/lock").st_mode) & 0o1777 == 0o1777
    expected = "/run/lock/fallow" if everybodys or os.path.isdir("/run/lock/fallow") else "/tmp/fallow-claims"
    assert folder_path({}) == expected
