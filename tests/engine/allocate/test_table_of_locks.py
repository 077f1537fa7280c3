"""The kernel's table of locks, which any user can make long, is read only where a claim file does not tell enough."""

import os
import pathlib

import pytest

from fallow.engine.allocate.claim import claim
from fallow.engine.allocate.pick import Request
from fallow.engine.machine.world import World
from fallow.policies.pick import Wanted
from fallow.readers.proc import Proc

pytestmark = pytest.mark.more


class WithoutLocks(Proc):
    """A /proc whose table of locks must not be read."""

    @property
    def root(self) -> str:
        raise AssertionError("the table is read")


@pytest.mark.as_root
def test_a_launch_reads_no_table_of_locks_where_the_claim_files_are_roots(tmp_path: pathlib.Path) -> None:
    """100,000 locks of a neighbour on files of her own made each launch of everybody take 17 s."""
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "2xH100"})
    for proc in (Proc(), WithoutLocks()):  # the first launch makes the files, and looks for claims on earlier ones
        world.proc = proc
        for held in claim(world, Request(Wanted(count=2)), pid=os.getpid(), program="x").claims:
            held.end()
    world.close()
