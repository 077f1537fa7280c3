"""The search for the process that opened a GPU's node."""

import pathlib
from collections.abc import Callable

import pytest

from fallow.engine.fill.newcomers import Search
from fallow.readers.proc import Proc
from tests.readers.test_proc import add

NODE, GPU = "/dev/nvidia0", "GPU-0"
OURS = 300


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "uptime").write_text("1000.0 1000.0\n")
    return tmp_path


def process(root: pathlib.Path, pid: int, opens: int) -> None:
    """A process with three other descriptors, and then so many on the node."""
    if not (root / str(pid)).exists():
        add(root, pid)
        (root / str(pid) / "fd").mkdir()
    for number in range(3 + opens):
        link = root / str(pid) / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null" if number < 3 else NODE)


def search(root: pathlib.Path, monotonic_s: Callable[[], float] = lambda: 0.0) -> Search:
    searching = Search(Proc(str(root)), lambda pid: pid == OURS, monotonic_s)
    searching.watch({GPU: NODE})
    return searching


def test_it_finds_who_has_the_node_open_further_than_before(root: pathlib.Path) -> None:
    process(root, 100, opens=4)
    searching = search(root)
    searching.begin(10.0)
    process(root, OURS, opens=9)
    assert searching.look(10.0) == [], "who had it open before is no newcomer, and no filler is"
    process(root, 100, opens=5)
    process(root, 200, opens=1)
    found = searching.look(10.002)
    assert [(each.uuid, each.opens) for each in found] == [(GPU, 5), (GPU, 1)]
    assert "pid 100" in str(found[0].reason)
    process(root, 200, opens=4)
    assert [each.opens for each in searching.look(10.004)] == [4], "it is counted at each look"


def test_a_search_looks_nine_times_within_a_quarter_of_a_second_and_ends(root: pathlib.Path) -> None:
    searching = search(root)
    searching.begin(10.0)
    looks = []
    while (due_s := searching.due_s) is not None:
        looks.append(round(due_s - 10.0, 3))
        searching.look(due_s)
    assert looks == [0.0, 0.002, 0.004, 0.007, 0.012, 0.025, 0.05, 0.1, 0.25]


def test_a_search_takes_a_fifth_of_the_time_however_often_the_node_is_opened(root: pathlib.Path) -> None:
    clock = iter(range(10, 10_000))
    searching = search(root, lambda: float(next(clock)))
    searching.begin(10.0)
    searching.look(10.0)
    searching.begin(11.0)
    assert searching.due_s == 11.0 + 4 * 1.0
