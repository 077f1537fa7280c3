"""The processes of a unit are searched once for all holders in it, however many processes there are."""

import pathlib

import pytest

from fallow.core.owner import Owner, OwnerKind
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, Recent, contact
from fallow.readers.proc import Proc

pytestmark = pytest.mark.more


class Counting(Proc):
    """Counts how often all processes are read."""

    reads = 0

    def pids(self) -> list[int]:
        """Return them, and count."""
        self.reads += 1
        return super().pids()


def test_all_holders_of_one_unit_cost_one_search(tmp_path: pathlib.Path) -> None:
    for pid in range(100, 120):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "status").write_text("Uid:\t4001\t4001\t4001\t4001\n")
        (folder / "cgroup").write_text("0::/system.slice/train.service\n")
    world = World({})
    world.proc = proc = Counting(str(tmp_path))
    owner, recent = Owner(OwnerKind.SERVICE, "train.service", "train.service"), Recent(world.clock)
    for pid in range(100, 120):
        found = contact(world, owner, pid, recent)
        assert isinstance(found, Contact)
        assert found.facts.pids == frozenset(range(100, 120))
    assert proc.reads < 10, "once in some seconds"
