"""Locks are looked at without being taken, inherited, and freed by the kernel."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fallow.actuators.files import ofd_locks
from tests.waiting import end


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Iterator[list[int]]:
    path = tmp_path / "file"
    path.touch()
    made = [os.open(path, os.O_RDWR) for _ in range(3)]
    yield made
    for fd in made:
        os.close(fd)


def test_what_one_has_another_cannot_take(files: list[int]) -> None:
    assert ofd_locks.take(files[0], 5)
    assert not ofd_locks.take(files[1], 5)
    assert not ofd_locks.take(files[1], 5, shared=True)
    assert ofd_locks.take(files[1], 6)


def test_those_who_share_let_each_other_in_and_nobody_else(files: list[int]) -> None:
    assert ofd_locks.take(files[0], 5, shared=True)
    assert ofd_locks.take(files[1], 5, shared=True)
    assert not ofd_locks.take(files[2], 5)


def test_looking_takes_nothing_and_says_whether_another_open_file_has_it_and_shares_it(files: list[int]) -> None:
    assert ofd_locks.held(files[0], 5) is None
    assert ofd_locks.take(files[1], 5)
    assert ofd_locks.take(files[1], 6, shared=True)
    assert [ofd_locks.held(files[0], byte) for byte in (4, 5, 6)] == [None, "exclusive", "shared"]
    assert ofd_locks.held(files[1], 5) is None, "it is its own"


def test_a_reader_without_the_right_to_write_can_look(files: list[int], tmp_path: pathlib.Path) -> None:
    ofd_locks.take(files[0], 5)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    assert ofd_locks.held(fd, 5) == "exclusive"
    os.close(fd)


def test_a_lock_lives_on_in_a_program_that_inherited_it_and_dies_with_it(files: list[int]) -> None:
    held = os.dup(files[0])
    ofd_locks.take(held, 5)
    heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[held])
    os.close(held)
    os.close(files[0])
    files[0] = os.dup(files[1])
    assert ofd_locks.held(files[1], 5) is not None
    end(heir)
    assert ofd_locks.held(files[1], 5) is None
