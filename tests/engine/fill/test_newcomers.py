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
    (found,) = searching.look(10.002)
    assert (found.uuid, found.opens) == (GPU, 5)
    assert "pid 100" in str(found.reason)
    assert [each.opens for each in searching.look(10.004)] == [1]


def test_a_search_looks_nine_times_within_a_quarter_of_a_second_and_ends(root: pathlib.Path) -> None:
    searching = search(root)
    searching.begin(10.0)
    looks = []
    while (due_s := searching.due_s) is not None:
        looks.append(round(due_s - 10.0, 3))
        searching.look(due_s)
    assert looks == [0.0, 0.002, 0.004, 0.007, 0.012, 0.025, 0.05, 0.1, 0.25]


def test_counting_all_processes_takes_a_fifth_of_the_time_however_often_the_node_is_opened(
    root: pathlib.Path,
) -> None:
    clock = iter([10.0, 11.0, 14.9, 15.0, 16.0])
    searching = search(root, lambda: next(clock))
    searching.begin(10.0)
    assert searching.look(10.0) == []
    process(root, 200, opens=5)
    searching.begin(14.9)
    assert searching.look(14.9) == [], "counting all took a second"
    searching.begin(15.0)
    assert [each.opens for each in searching.look(15.0)] == [5]


def test_who_has_the_node_open_is_counted_at_each_look(root: pathlib.Path) -> None:
    clock = iter([10.0, 11.0, 11.0])
    searching = search(root, lambda: next(clock))
    process(root, 200, opens=1)
    searching.begin(10.0)
    assert [each.opens for each in searching.look(10.0)] == [1]
    process(root, 200, opens=4)
    searching.begin(11.0)
    assert [each.opens for each in searching.look(11.0)] == [4]
