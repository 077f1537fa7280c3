"""Whether a unit of systemd is one job: then it is stopped as a whole."""

import pathlib

import pytest

from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.unknown import Unknown
from fallow.readers.owners.units import facts_of, one_job
from fallow.readers.proc import Proc

UNIT = "spawner.service"
CGROUP = f"/system.slice/{UNIT}"
OWNER = Owner(OwnerKind.SERVICE, UNIT, UNIT, cgroup=CGROUP)
KERNEL = "01234567-89ab-cdef-0123-456789abcdef"
MAIN, JOB = 10, 11


@pytest.fixture
def process(tmp_path: pathlib.Path) -> "Process":
    return Process(tmp_path)


class Process:
    """Puts processes of the unit into a /proc."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root

    def __call__(
        self,
        pid: int,
        real: int = 1000,
        effective: int = 1000,
        *,
        terminal: int = 0,
        line: str = "x",
        below: str = "",
    ) -> None:
        folder = self._root / str(pid)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nUid:\t{real}\t{effective}\t{effective}\t{effective}\n")
        (folder / "cgroup").write_text(f"0::{CGROUP}{below}\n")
        (folder / "stat").write_text(
            f"{pid} (x) S 1 {pid} {pid} {terminal} -1 0 " + "0 " * 12 + "100 0 0 " + "0 " * 30
        )
        (folder / "cmdline").write_text(line.replace(" ", "\0"))


def found(root: pathlib.Path) -> OwnerFacts | Unknown | None:
    """What is known of the unit of the job."""
    proc = Proc(str(root))
    return facts_of(proc, OWNER, JOB, lambda path: one_job(proc, OWNER, path))


@pytest.mark.parametrize(("real", "effective", "is_one_job"), [(1000, 1000, True), (0, 33, False), (33, 33, False)])
def test_a_unit_is_one_job_only_if_all_in_it_are_known_to_be_one_users(
    tmp_path: pathlib.Path, process: Process, real: int, effective: int, is_one_job: bool
) -> None:
    process(MAIN, real, effective)
    process(JOB)
    assert found(tmp_path) == (OwnerFacts(UNIT, pids=frozenset((MAIN, JOB))) if is_one_job else None)


@pytest.mark.parametrize("has_it", [MAIN, JOB])
def test_a_unit_with_a_terminal_in_it_is_not_one_job(tmp_path: pathlib.Path, process: Process, has_it: int) -> None:
    """An idle script in a terminal of Jupyter must not have Jupyter's service stopped, with all notebooks."""
    for pid in (MAIN, JOB):
        process(pid, terminal=34816 if pid == has_it else 0)
    assert found(tmp_path) is None


def test_a_unit_with_a_notebook_in_it_is_not_one_job(tmp_path: pathlib.Path, process: Process) -> None:
    process(MAIN, line=f"python -m ipykernel_launcher -f /run/kernel-{KERNEL}.json")
    process(JOB)
    assert found(tmp_path) is None


def test_a_unit_with_a_container_in_it_is_not_one_job(tmp_path: pathlib.Path, process: Process) -> None:
    process(MAIN, below=f"/libpod-{'3f2b' * 16}.scope")
    process(JOB)
    assert found(tmp_path) is None
