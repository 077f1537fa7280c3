"""What a daemon of root makes of claim files that others have made before it."""

import os
import pathlib
from collections.abc import Iterator

import pytest

from fallow.actuators.claims.claims import HeldClaim, take
from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.reservations import Claim
from fallow.engine.doctor.fix import own_the_folder
from fallow.engine.machine.world import World

pytestmark = pytest.mark.several_users
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
    assert told == ["GPU 1: its claim file has a second name, and is claimed; run fallow up again later"]
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
