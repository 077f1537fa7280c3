"""The files with stacks: nobody fills the disk with them, or has those of others removed."""

import os
import pathlib

import pytest

from fallow.actuators.files.stack_files import remove_oldest, stack_file_name

MIB = 1 << 20


def write(folder: pathlib.Path, user: str, pid: int, size: int) -> str:
    """Make a file that looks so long, written in the second of its pid."""
    name = stack_file_name(user, pid, 7)
    (folder / name).touch()
    os.truncate(folder / name, size)
    os.utime(folder / name, (pid, pid))
    return name


def test_who_has_many_jobs_stopped_loses_the_oldest_stacks_of_their_own(tmp_path: pathlib.Path) -> None:
    """Nothing was ever removed: a neighbour with idle jobs filled the disk of the journal."""
    of_ada = [write(tmp_path, "ada", pid, MIB) for pid in (1, 2)]
    of_eve = [write(tmp_path, "eve", pid, MIB) for pid in range(10, 40)]
    (tmp_path / "journal.db").touch()
    remove_oldest(tmp_path.as_posix(), 10 * MIB)
    assert sorted(os.listdir(tmp_path)) == sorted(["journal.db", *of_ada, *of_eve[-8:]])


def test_short_files_count_as_much_as_they_take(tmp_path: pathlib.Path) -> None:
    for pid in range(10, 40):
        write(tmp_path, "eve", pid, 1)
    remove_oldest(tmp_path.as_posix(), 20 * 4096)
    assert len(os.listdir(tmp_path)) == 20


@pytest.mark.parametrize("user", ["ada", "ada-2", "3com", "CORP\\ada", "ada/../x", "ünal", "x" * 300, "100123", ""])
def test_the_file_of_any_user_is_found_again_under_its_own_name(tmp_path: pathlib.Path, user: str) -> None:
    name = write(tmp_path, user, 10, 1)
    assert "/" not in name
    os.rename(tmp_path / name, tmp_path / f"{name.removesuffix('.txt')}-2.txt")
    remove_oldest(tmp_path.as_posix(), 0)
    assert os.listdir(tmp_path) == []


def test_users_without_an_account_are_one(tmp_path: pathlib.Path) -> None:
    """One person may have thousands of them."""
    of_ada = [write(tmp_path, "ada", pid, MIB) for pid in (1, 2)]
    for pid in range(10, 40):
        write(tmp_path, f"{100_000 + pid}", pid, MIB)
    remove_oldest(tmp_path.as_posix(), 4 * MIB)
    assert set(of_ada) <= set(os.listdir(tmp_path))
