"""A unit is looked into once more when it is stopped: what it listed is some seconds old."""

import pathlib

from fallow.core.findings import Outcome
from fallow.core.owner import Owner, OwnerKind
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, contact
from fallow.readers.proc import Proc

UNIT = "train-of-a-test.service"
OWNER = Owner(OwnerKind.SERVICE, UNIT, UNIT, cgroup=f"/system.slice/{UNIT}")


def put(root: pathlib.Path, pid: int, terminal: int = 0) -> None:
    """A process in the unit."""
    folder = root / str(pid)
    folder.mkdir()
    (folder / "status").write_text("Uid:\t4001\t4001\t4001\t4001\n")
    (folder / "cgroup").write_text(f"0::/system.slice/{UNIT}\n")
    (folder / "cmdline").write_text("x")
    (folder / "stat").write_text(f"{pid} (x) S 1 {pid} {pid} {terminal} -1 0 " + "0 " * 12 + "100 0 0 " + "0 " * 30)


def test_a_unit_that_has_got_other_work_since_it_was_listed_is_not_stopped(tmp_path: pathlib.Path) -> None:
    put(tmp_path, 100)
    world = World({})
    world.proc = Proc(str(tmp_path))
    found = contact(world, OWNER, 100)
    assert isinstance(found, Contact)
    put(tmp_path, 101, terminal=34816)
    assert found.stop(1.0) == Outcome(False, f"there is other work in {UNIT} now")
