"""A launch that waits is woken when a claim ends or a place is left, and not when somebody only looks."""

import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.actuators.claims.claims import take
from fallow.actuators.claims.waitline import FolderWatch
from fallow.core.errors import NotEnoughGpus
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.reservations import Note
from fallow.engine.allocate.pick import pick
from fallow.engine.allocate.search import Request
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import wait_until_clear
from fallow.engine.park.place import kept_free
from fallow.policies.pick import Wanted

UUIDS = [f"GPU-fa110000-0000-4000-8000-{index:012x}" for index in range(2)]


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "2xH100"})
    yield made
    made.close()


def refused(world: World) -> None:
    with suppress(NotEnoughGpus):
        pick(world, Request(Wanted(count=1)))


def refused_without_a_reservation(world: World) -> None:
    with suppress(NotEnoughGpus):
        pick(world, Request(Wanted(count=1)), reserve=False)


def waits_for_fillers(world: World) -> None:
    wait_until_clear(world, world.gpu_reader.look(Request(Wanted()).depth).gpus, 0, str)


@pytest.mark.parametrize("looks", [refused, refused_without_a_reservation, waits_for_fillers])
def test_looking_at_claims_wakes_no_launch_that_waits(world: World, looks: Callable[[World], None]) -> None:
    held = [take(world.folder, uuid, Note(program="train")) for uuid in UUIDS]
    assert None not in held
    watch = FolderWatch(world.folder, world.clock)
    looks(world)
    assert not watch.wait(0.0)
    for each in held:
        if each is not None:
            each.end()
    assert watch.wait(0.0), "a claim has ended"
    watch.close()


def test_a_job_that_is_woken_wakes_no_launch_while_it_looks_for_fillers(world: World) -> None:
    me = Process(1, 1)
    job = ParkedJob(me, (me,), "eve", "job 1 (python)", ((UUIDS[0], 1),), 0.0)
    os.close(world.folder.open(UUIDS[0]))
    watch = FolderWatch(world.folder, world.clock)
    with kept_free(world, job):
        assert not watch.wait(0.0)
    assert watch.wait(0.0), "its claim has ended"
    watch.close()
