"""The claim folder is everybody's, and follows nobody's links."""

import os
import pathlib
import stat
from collections.abc import Callable

import pytest

from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.core.errors import NotPermitted
from tests.actuators.claims.test_users import ADA, BOB


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


def test_a_second_name_of_a_file_that_is_not_everybodys_is_refused_and_left_as_it_is(tmp_path: pathlib.Path) -> None:
    """V6, st_nlink: a neighbour's hard link must not let fallow write to, or open to all, what is not hers."""
    folder = ClaimFolder(str(tmp_path / "claims"))
    secret = tmp_path / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    os.link(secret, tmp_path / "claims" / "GPU-1")
    with pytest.raises(NotPermitted, match="shut to others"):
        folder.open("GPU-1")
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("mine", 0o600)


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


@pytest.mark.more
@pytest.mark.as_root
def test_the_first_use_of_several_users_at_the_same_moment_refuses_none(open_folder: pathlib.Path) -> None:
    open_folder.chmod(0o1777)
    for number in range(60):
        path, begin = str(open_folder / f"claims-{number}"), os.pipe()
        pids = [begun_by(uid, path, *begin) for uid in (0, ADA, ADA, BOB, BOB)]
        for fd in begin:
            os.close(fd)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)
    assert {stat.S_IMODE(each.stat().st_mode) for each in open_folder.iterdir()} == {0o1777}
    assert {each.name for each in open_folder.iterdir()} == {f"claims-{number}" for number in range(60)}


def begun_by(uid: int, path: str, begin: int, begin_end: int) -> int:
    """A process of the user that uses the folder once the other end of its pipe is closed."""
    if (pid := os.fork()) != 0:
        return pid
    try:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.close(begin_end)
        os.read(begin, 1)
        folder = ClaimFolder(path)
        if uid != 0 or folder.owner_uid == 0:
            folder.open("GPU-1")
    except Exception as error:  # noqa: BLE001  a forked child of the test must not go on as one
        os.write(2, f"{uid}: {error!r}\n".encode())
        os._exit(1)
    os._exit(0)
