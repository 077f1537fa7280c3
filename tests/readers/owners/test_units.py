"""Whether a unit of systemd is one job: then it is stopped as a whole."""

import pathlib

import pytest

from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.readers.owners.units import facts_of
from fallow.readers.proc import Proc

UNIT = "spawner.service"
MAIN, JOB, ENDED = 10, 11, 12


@pytest.fixture
def process(tmp_path: pathlib.Path) -> "Process":
    return Process(tmp_path)


class Process:
    """Puts processes of the unit into a /proc."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root

    def __call__(self, pid: int, real: int, effective: int) -> None:
        folder = self._root / str(pid)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nUid:\t{real}\t{effective}\t{effective}\t{effective}\n")
        (folder / "cgroup").write_text(f"0::/system.slice/{UNIT}\n")
        (folder / "stat").write_text(f"{pid} (x) S 1 {pid} {pid} 0 -1 0 " + "0 " * 12 + "100 0 0 " + "0 " * 30)


@pytest.mark.parametrize(("real", "effective", "is_one_job"), [(1000, 1000, True), (0, 33, False), (33, 33, False)])
def test_a_unit_is_one_job_only_if_all_in_it_are_known_to_be_one_users(
    tmp_path: pathlib.Path, process: Process, real: int, effective: int, is_one_job: bool
) -> None:
    process(MAIN, real, effective)
    process(JOB, 1000, 1000)
    owner = Owner(OwnerKind.SERVICE, UNIT, UNIT, cgroup=f"/system.slice/{UNIT}")
    found = facts_of(Proc(str(tmp_path)), owner, JOB, lambda _: frozenset((MAIN, JOB, ENDED)))
    assert found == (OwnerFacts(UNIT, pids=frozenset((MAIN, JOB, ENDED))) if is_one_job else None)
