"""Names of cgroups and chains of processes that a user makes to have others' jobs stopped, or to keep fallow busy."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fallow.core.gpu import Snapshot
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.process import DEEPEST
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.readers.owners.cgroups import paths_in
from fallow.readers.owners.traces import container_cgroup, trace
from fallow.readers.owners.units import unit_cgroup
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.core.gpus import held
from tests.places import LIMIT_S
from tests.real_owners import eventually
from tests.waiting import end

pytestmark = pytest.mark.more

CONTAINER = "3f2b" * 16
# What str.splitlines takes for the end of a line, without the line feed, which no cgroup can have in its name.
ENDS = ["\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
WAITS = "print('up', flush=True); input()"
FORKS = """
import os, sys
for _ in range(int(sys.argv[1])):
    if os.fork():
        os.wait()
        os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def in_cgroup() -> Iterator[Callable[[str], int]]:
    """Start a process in a cgroup of this path, which is made; its pid."""
    if os.geteuid() != 0:
        pytest.skip("making a cgroup needs root")
    unified = pathlib.Path("/sys/fs/cgroup/unified")
    top = (unified if unified.exists() else unified.parent) / f"mine-{os.getpid()}"
    started: list[subprocess.Popen[str]] = []

    def start(path: str) -> int:
        folder = top / path
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        words = [sys.executable, "-S", "-c", WAITS]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        (folder / "cgroup.procs").write_text(str(process.pid))
        return process.pid

    yield start
    for process in started:
        end(process)
    for folder, _, _ in os.walk(top, topdown=False):
        eventually(lambda folder=folder: pathlib.Path(folder).rmdir() is None, "an empty cgroup")


@pytest.mark.parametrize("end", ENDS, ids=ascii)
@pytest.mark.parametrize("name", [f"docker-{CONTAINER}.scope", "postgresql.service"])
def test_a_cgroup_whose_name_pretends_to_be_another_line_is_nobody_elses(
    in_cgroup: Callable[[str], int], end: str, name: str
) -> None:
    pid = in_cgroup(f"a{end}0::/system.slice/{name}")
    owner = trace(Proc(), pid)
    assert isinstance(owner, Owner)
    assert owner.kind not in (OwnerKind.CONTAINER, OwnerKind.SERVICE)
    assert container_cgroup(Proc(), pid, CONTAINER) is None
    assert unit_cgroup(Proc(), pid, "postgresql.service") is None


def test_a_name_that_cannot_be_printed_takes_no_process_out_of_the_unit_or_container_around_it(
    in_cgroup: Callable[[str], int],
) -> None:
    """Else whoever may make a cgroup in there would not count when the whole is stopped."""
    pid = in_cgroup(f"docker-{CONTAINER}.scope/a\f/b")
    owner = trace(Proc(), pid)
    assert isinstance(owner, Owner)
    assert owner.id == CONTAINER
    cgroup = container_cgroup(Proc(), pid, CONTAINER)
    assert cgroup == owner.cgroup
    assert cgroup is not None
    assert cgroup.endswith(f"/docker-{CONTAINER}.scope")


def test_a_cgroup_with_more_in_its_name_than_the_containers_is_another_one(in_cgroup: Callable[[str], int]) -> None:
    one, other = in_cgroup(f"docker-{CONTAINER}.scope"), in_cgroup(f"docker-{CONTAINER}.scope-mine")
    assert container_cgroup(Proc(), one, CONTAINER) != container_cgroup(Proc(), other, CONTAINER)


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        (b"0::/a\n", ("/a",)),
        (b"2:cpu:/b\n0::/a\n", ("/a", "/b")),
        (b"0::/a\xff/b\n", ("/",)),
        (b"0::/a/\x1b[2J/b\n", ("/a",)),
        (b"0::/" + b"x" * 5000, ("/",)),
        (b"0::/a:b:c\n", ("/a:b:c",)),
        (b"nonsense\n", ()),
        (b"", ()),
    ],
)
def test_a_path_counts_as_far_as_it_can_be_printed(raw: bytes, paths: tuple[str, ...]) -> None:
    assert paths_in(raw) == paths


_opened: list[list[str]] = []


def _note(event: str, facts: tuple[object, ...]) -> None:
    if event == "open" and _opened and str(facts[0]).startswith("/proc/"):
        _opened[-1].append(str(facts[0]))


sys.addaudithook(_note)


def files_opened(look: Callable[[], object]) -> int:
    """How many files of /proc are opened meanwhile."""
    _opened.append([])
    look()
    return len(_opened.pop())


def chain(depth: int) -> "tuple[subprocess.Popen[str], int]":
    """A chain of processes with many words each; the first, and the pid of the last."""
    words = [sys.executable, "-S", "-c", FORKS, str(depth), *("w" * 2000)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_long_chain_of_processes_costs_no_more_than_one_of_the_depth_that_counts(fallow: Fallow) -> None:
    proc, costs, world = Proc(), [], World(fallow.environ, simulate="1xH100")
    for depth in (DEEPEST + 10, 300):
        first, last = chain(depth)
        try:
            assert trace(proc, last) == NO_OWNER
            assert len(proc.words(last)) <= 64
            found = JobFinder(world, KnownOwners(world, print))
            snapshot = Snapshot("host", simulated=True, at_s=0.0, wall_s=0.0, gpus=(held(pid=last),))
            looks = (lambda last=last: trace(proc, last), lambda find=found, at=snapshot: find.jobs(at))
            costs.append((*map(files_opened, looks), len(proc.lineage(last))))
        finally:
            first.communicate("", timeout=LIMIT_S)
    assert costs[0] == costs[1]
    assert costs[0][0] < DEEPEST * 8


def test_a_kernel_is_found_by_the_file_in_its_words(tmp_path: pathlib.Path) -> None:
    kernel = "14489c42-a288-4893-b758-511312669828"
    words = [sys.executable, "-S", "-c", WAITS, "-f", str(tmp_path / f"kernel-{kernel}.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        owner = trace(Proc(), process.pid)
        assert isinstance(owner, Owner)
        assert (owner.kind, owner.id, owner.manager) == (OwnerKind.NOTEBOOK, kernel, os.geteuid())
        process.communicate("\n", timeout=LIMIT_S)
