"""The claim folder is everybody's, and follows nobody's links."""

import os
import pathlib
import stat
from collections.abc import Callable

import pytest

from fallow.actuators.claims.folder import ClaimFolder, FileRefused, folder_path
from fallow.core.errors import NotPermitted, WrongUsage
from tests.actuators.claims.test_users import ADA


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
    assert set(os.listdir(tmp_path / "claims")) == {"___MIG-GPU-1_2_0"}


def shut(path: pathlib.Path) -> None:
    """A second name of a private file: a neighbour's hard link must not let fallow write to what is not hers."""
    secret = path.parent.parent / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    os.link(secret, path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to(path.parent.parent / "victim"), "cannot be opened"),
        (os.mkfifo, "is not a plain file"),
        (os.mkdir, "cannot be opened: Is a directory"),
        (shut, "is not a plain file that every user may write to"),
    ],
)
def test_what_is_no_file_that_all_may_write_is_refused_at_once_and_left_as_it_is(
    tmp_path: pathlib.Path, make: Callable[[pathlib.Path], None], why: str
) -> None:
    folder, path = ClaimFolder(str(tmp_path / "claims")), tmp_path / "claims" / "GPU-1"
    make(path)
    before = path.lstat()
    with pytest.raises(FileRefused, match=why) as refused:
        folder.open("GPU-1")
    assert refused.value.uid == os.getuid()
    assert path.lstat() == before
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("make", "why"), [(lambda path: path.symlink_to("."), "Not a directory"), (pathlib.Path.touch, "Not a directory")]
)
def test_a_path_that_is_no_folder_is_refused(
    tmp_path: pathlib.Path, make: Callable[[pathlib.Path], None], why: str
) -> None:
    make(tmp_path / "claims")
    with pytest.raises(NotPermitted, match=why):
        ClaimFolder(str(tmp_path / "claims"))


def test_looking_at_a_file_that_nobody_made_makes_none(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    assert folder.peek("GPU-1") is None
    assert os.listdir(tmp_path / "claims") == []


def test_the_folder_hangs_on_the_machine_and_not_on_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder_path({"FALLOW_CLAIM_DIR": "/somewhere"}) == "/somewhere"
    with pytest.raises(WrongUsage, match="relative"):
        folder_path({"FALLOW_CLAIM_DIR": "somewhere"})
    there = os.path.isdir("/run/lock")
    everybodys = there and stat.S_IMODE(os.stat("/run/lock").st_mode) & 0o1777 == 0o1777
    expected = "/run/lock/fallow" if everybodys or os.path.isdir("/run/lock/fallow") else "/tmp/fallow-claims"
    assert folder_path({}) == expected


def test_adding_a_file_leaves_no_draft_behind(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    assert folder.add("protection-1", b"x")
    assert not folder.add("protection-1", b"y"), "there is one of that name"
    assert set(os.listdir(tmp_path / "claims")) == {"protection-1"}


@pytest.mark.as_root
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: folder.open("GPU-1"),
        lambda folder: folder.open("GPU-2"),
        lambda folder: folder.add("protection-1", b"x"),
        lambda folder: folder.remove("GPU-1"),
    ],
)
def test_root_creates_and_changes_nothing_in_a_folder_of_another_user(
    open_folder: pathlib.Path, change: Callable[[ClaimFolder], object]
) -> None:
    """FALLOW_CLAIM_DIR may name any folder by mistake, such as /scratch."""
    path = open_folder / "claims"
    path.mkdir()
    path.chmod(0o1777)
    (path / "GPU-1").touch()
    (path / "GPU-1").chmod(0o666)
    for each in (path / "GPU-1", path):
        os.chown(each, ADA, ADA)
    before = owners_and_modes(path)
    folder = ClaimFolder(str(path))
    assert folder.peek("GPU-1") is not None, "looking is permitted"
    with pytest.raises(NotPermitted, match=f"chown root: {path} && chmod 1777 {path}"):
        change(folder)
    assert owners_and_modes(path) == before


def owners_and_modes(path: pathlib.Path) -> list[tuple[str, int, int, int]]:
    found = [(each.name, each.stat()) for each in (path, *path.iterdir())]
    return [(name, facts.st_uid, facts.st_gid, facts.st_mode) for name, facts in found]


@pytest.mark.as_root
def test_root_makes_no_folder_in_a_folder_of_another_user(open_folder: pathlib.Path) -> None:
    os.chown(open_folder, ADA, ADA)
    with pytest.raises(NotPermitted, match="another user's"):
        ClaimFolder(str(open_folder / "claims"))
    assert os.listdir(open_folder) == []
