"""A daemon of root makes the claim files before anybody else can, in a folder that must be root's."""

import os
import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.errors import NotPermitted
from fallow.engine.doctor.root_folder import demand_root_folder
from fallow.engine.machine.world import World
from tests.actuators.claims.test_users import ADA

pytestmark = [pytest.mark.as_root, pytest.mark.more]
CARDS = [f"GPU-fa110000-0000-4000-8000-{index:012x}" for index in range(2)]


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "2xH100"})
    yield made
    made.close()


def test_the_file_of_each_gpu_is_there_and_one_that_cannot_be_used_is_told(world: World) -> None:
    path, told = pathlib.Path(world.folder.path), list[str]()
    os.mkfifo(path / CARDS[1])
    os.chown(path / CARDS[1], ADA, ADA)
    demand_root_folder(world, told.append)
    assert {each.name for each in path.iterdir()} == set(CARDS)
    assert told == [
        f"GPU 1: its file {path}/{CARDS[1]} is not a plain file that every user may write to; "
        f"it is {ADA}'s (its owner or root can remove it)"
    ]


def test_a_folder_of_another_user_is_refused_with_what_to_do(world: World) -> None:
    path = world.folder.path
    os.chown(path, ADA, ADA)
    with pytest.raises(NotPermitted, match=f"{ADA}'s.*; as root run: chown root: {path} && chmod 1777 {path}"):
        demand_root_folder(world, str)
    assert os.stat(path).st_uid == ADA
