"""What a daemon of root makes of claim files that others have made before it."""

import os
import pathlib
from collections.abc import Iterator

import pytest

from fallow.actuators.claims.claims import HeldClaim, take
from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.reservations import Claim
from fallow.engine.doctor.fix import fix, own_the_folder
from fallow.engine.machine.world import World
from fallow.readers.proc import Proc

pytestmark = [pytest.mark.as_root, pytest.mark.more]
EVE = 61003
CARDS = [f"GPU-fa110000-0000-4000-8000-{index:012x}" for index in range(3)]


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "3xH100"})
    yield made
    made.close()


@pytest.fixture
def claims(world: World) -> pathlib.Path:
    """A folder in which eve has made one file for all GPUs, and keeps another name of it."""
    path = pathlib.Path(world.folder.path)
    first = path / CARDS[0]
    first.touch()
    first.chmod(0o666)
    os.chown(first, EVE, EVE)
    for name in (*CARDS[1:], "hers"):
        os.link(first, path / name)
    return path


def taken(world: World, uuid: str) -> HeldClaim | None:
    return take(ClaimFolder(world.folder.path), uuid, Claim(shared=False, command="train"))


def test_a_claim_on_one_gpu_is_none_on_others_though_a_user_has_made_one_file_for_all(
    world: World, claims: pathlib.Path
) -> None:
    told: list[str] = []
    own_the_folder(world, told.append)
    files = [(claims / name).stat() for name in CARDS]
    assert (len({file.st_ino for file in files}), {file.st_uid for file in files}, told) == (3, {0}, [])
    held = [taken(world, uuid) for uuid in CARDS]
    assert None not in held
    assert taken(world, CARDS[1]) is None, "it is claimed now"
    for each in held:
        if each is not None:
            each.end()


def test_a_file_by_which_a_gpu_is_claimed_stays_and_that_is_told(world: World, claims: pathlib.Path) -> None:
    before = taken(world, CARDS[1])
    told: list[str] = []
    own_the_folder(world, told.append)
    assert [(claims / name).stat().st_uid for name in CARDS] == [0, EVE, 0]
    assert told == ["GPU 1: its claim file has a second name or is shut, and is claimed; run fallow up again later"]
    assert taken(world, CARDS[1]) is None
    others = [taken(world, CARDS[0]), taken(world, CARDS[2])]
    assert None not in others
    for each in (before, *others):
        if each is not None:
            each.end()


def test_a_second_name_of_a_file_of_roots_changes_nothing(world: World) -> None:
    """Any user can give one to a file that is open to all; launches may wait in line there."""
    own_the_folder(world, lambda _: None)
    path = pathlib.Path(world.folder.path)
    before = [(path / name).stat().st_ino for name in CARDS]
    os.link(path / CARDS[0], path / "hers")
    told: list[str] = []
    own_the_folder(world, told.append)
    assert ([(path / name).stat().st_ino for name in CARDS], told) == (before, [])


class CountedLocks(Proc):
    """A /proc that counts how often its table of locks is read."""

    reads = 0

    @property
    def root(self) -> str:
        self.reads += 1
        return "/proc"


def is_settled(path: pathlib.Path) -> list[bool]:
    return [(path / name).stat().st_uid == 0 == (path / name).stat().st_gid for name in CARDS]


def test_the_table_of_locks_is_read_once_for_all_gpus_after_their_files_are_there(world: World) -> None:
    """100,000 locks of a neighbour made the first start of root's daemon take more than a minute."""
    path, world.proc = pathlib.Path(world.folder.path), CountedLocks()
    own_the_folder(world, lambda _: None)
    assert (is_settled(path), world.proc.reads) == ([True] * 3, 1)
    own_the_folder(world, lambda _: None)
    assert world.proc.reads == 1, "no file is in doubt any more"


def test_a_repair_of_the_folder_reads_it_once_too(world: World) -> None:
    path, world.proc = pathlib.Path(world.folder.path), CountedLocks()
    for name in CARDS:
        (path / name).touch()
        (path / name).chmod(0o666)
        os.chown(path / name, EVE, EVE)
    assert sum("which was uid 61003's" in said for said in fix(world, dry_run=False)) == len(CARDS)
    assert (is_settled(path), world.proc.reads) == ([True] * 3, 1)


def test_a_gpu_that_is_claimed_by_a_removed_file_stays_in_doubt_and_the_others_do_not(world: World) -> None:
    path = pathlib.Path(world.folder.path)
    (path / CARDS[1]).touch()
    (path / CARDS[1]).chmod(0o666)
    before = taken(world, CARDS[1])
    assert before is not None
    (path / CARDS[1]).unlink()
    told: list[str] = []
    own_the_folder(world, told.append)
    assert is_settled(path) == [True, False, True]
    assert len(told) == 1
    assert told[0].startswith("GPU 1: ")
    before.end()
    own_the_folder(world, told.append)
    assert (is_settled(path), len(told)) == ([True] * 3, 1)
