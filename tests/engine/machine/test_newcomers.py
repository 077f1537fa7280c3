"""The search for the process that opened a GPU's node; in doubt somebody is there."""

import pathlib
from collections.abc import Callable

import pytest

from fallow.engine.machine.newcomers import Newcomers
from fallow.readers.proc import Proc
from tests.readers.test_proc import add

NODE, GPU = "/dev/nvidia0", "GPU-0"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "uptime").write_text("1000.0 1000.0\n")
    return tmp_path


def process(root: pathlib.Path, pid: int, others: int, nodes: int = 0) -> None:
    """A process with so many other descriptors, and then so many on the node."""
    add(root, pid)
    (root / str(pid) / "fd").mkdir()
    for number in range(others + nodes):
        (root / str(pid) / "fd" / str(number)).symlink_to("/dev/null" if number < others else NODE)


def search(root: pathlib.Path, monotonic_s: Callable[[], float] = lambda: 0.0) -> Newcomers:
    return Newcomers(Proc(str(root)), {GPU: NODE}, lambda _: False, (), monotonic_s, eager=False)


def test_a_process_is_a_newcomer_once_it_has_the_node_open_as_often_as_cuda(root: pathlib.Path) -> None:
    process(root, 100, 3, nodes=4)
    newcomers = search(root)
    newcomers.remember()
    newcomers.note_open(0.0, {GPU})
    assert newcomers.look(0.0) == {}, "nobody opened it again"
    process(root, 200, 3, nodes=1)
    assert newcomers.look(0.007) == {}, "a monitor opens it up to three times"
    for number in range(90, 93):
        (root / "200" / "fd" / str(number)).symlink_to(NODE)
    assert "pid 200" in str(newcomers.look(0.008)[GPU]), "it is counted at each look"


def test_a_search_that_finds_nobody_ends(root: pathlib.Path) -> None:
    newcomers = search(root)
    newcomers.note_open(0.0, {GPU})
    looks = [newcomers.look(each / 1000) for each in range(600)]
    assert not any(looks)
    assert newcomers.next_look_s(0.6) is None


def test_opens_without_pause_are_no_newcomer_as_long_as_all_can_be_counted(root: pathlib.Path) -> None:
    newcomers = search(root)
    for millisecond in range(5000):
        newcomers.note_open(millisecond / 1000, {GPU})
        assert newcomers.look(millisecond / 1000) == {}


def test_a_search_that_cannot_be_finished_in_time_takes_somebody_to_be_there(root: pathlib.Path) -> None:
    """Counting all takes two seconds, and rests as long."""
    clock = iter(range(0, 1000, 2))
    newcomers = search(root, lambda: float(next(clock)))
    newcomers.note_open(0.0, {GPU})
    found = [newcomers.look(each / 100) for each in range(301)]
    assert [bool(each) for each in found] == [False] * 300 + [True]
    assert found[-1][GPU].kind == "opened_unseen"
    assert NODE in str(found[-1][GPU])
