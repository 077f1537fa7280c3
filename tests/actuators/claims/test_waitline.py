"""A launch is in line while its file is locked, and tickets are in order of arrival."""

import os
import pathlib

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.waitline import Place, waiting
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Note
from tests.harness import ManualClock

NOTE = Note(4711, 12, "train", 1.5)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> ClaimFolder:
    return ClaimFolder(str(tmp_path / "claims"))


def test_those_who_wait_are_seen_first_come_first_with_what_they_want_until_they_leave(folder: ClaimFolder) -> None:
    clock = ManualClock()
    first = Place(folder, clock, NOTE, ["GPU-1", "GPU-2"])
    clock.now_s += 1
    pick = Place(folder, clock, NOTE, ["GPU-1"], is_pick=True)
    first.want(["GPU-3"])
    found = list(waiting(folder))
    assert [waiter.ticket for waiter in found] == [first.ticket, pick.ticket]
    assert [(waiter.came_s, waiter.uid, waiter.note) for waiter in found] == [
        (1000.0, os.getuid(), NOTE),
        (1001.0, os.getuid(), NOTE),
    ]
    assert [(waiter.gpus, waiter.is_pick) for waiter in found] == [({"GPU-3"}, False), ({"GPU-1"}, True)]
    assert list(waiting(folder, before=first.ticket)) == []
    first.close()
    assert [waiter.ticket for waiter in waiting(folder)] == [pick.ticket]
    pick.close()
    assert folder.names() == []


def test_a_launch_that_is_killed_waits_no_more_and_its_file_is_removed_by_its_user_s_next_look(
    folder: ClaimFolder,
) -> None:
    if (pid := os.fork()) == 0:
        Place(folder, ManualClock(), NOTE, ["GPU-1"])
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(folder.names()) == 1
    assert list(waiting(folder)) == []
    assert folder.names() == []


@pytest.mark.as_root
def test_what_another_user_s_launch_has_left_stays(folder: ClaimFolder) -> None:
    path = pathlib.Path(folder.path, "wait-00000000000000000001-1")
    path.touch()
    os.chown(path, 61001, 61001)
    assert list(waiting(folder)) == []
    assert path.exists()


@pytest.mark.parametrize("name", ["wait-x", "wait-", "wait-1", "wait--"])
@pytest.mark.parametrize("content", [b"", b"\xff\n\n\n", b"9" * 100_000])
def test_a_file_that_is_no_place_or_makes_no_sense_wants_no_gpu(
    folder: ClaimFolder, name: str, content: bytes
) -> None:
    folder.add(name, content)
    lock = os.open(f"{folder.path}/{name}", os.O_RDWR)
    assert ofd_locks.take(lock, 0)
    assert [waiter.gpus for waiter in waiting(folder)] in ([], [frozenset()])
    os.close(lock)


def test_a_pipe_in_the_place_of_a_launch_blocks_nobody(folder: ClaimFolder) -> None:
    os.mkfifo(f"{folder.path}/wait-00000000000000000001-1")
    assert list(waiting(folder)) == []
