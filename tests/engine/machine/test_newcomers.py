"""The search for who opened a GPU's node costs little, however many files are open; in doubt somebody is there."""

import pathlib

import pytest

from fallow.core.reasons import Reason
from fallow.engine.machine.newcomers import Budget, Newcomers
from fallow.readers.proc import Proc
from tests.readers.test_proc import add

pytestmark = pytest.mark.more

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


def searched(
    root: pathlib.Path, budget: Budget, until_s: float, *, opens: int = 1
) -> tuple[float, dict[str, Reason]]:
    """Search from time 0 on, a look each millisecond; return when it ended, and who was found."""
    newcomers = Newcomers(Proc(str(root)), {GPU: NODE}, lambda _: False, (), eager=False, budget=budget)
    for millisecond in range(round(until_s * 1000)):
        now_s = millisecond / 1000
        if millisecond < opens:
            newcomers.note_open(now_s, {GPU})
        found = newcomers.look(now_s)
        if found or not newcomers.closely(now_s):
            return now_s, found
    return until_s, {}


def test_who_has_few_files_open_is_found_at_once_among_many_with_thousands(root: pathlib.Path) -> None:
    for pid in range(100, 110):
        process(root, pid, 300)
    process(root, 200, 3)
    newcomers = Newcomers(Proc(str(root)), {GPU: NODE}, lambda _: False, (), eager=False, budget=Budget(steps=2000))
    newcomers.remember()
    for number in range(4):
        (root / "200" / "fd" / f"{90 + number}").symlink_to(NODE)
    newcomers.note_open(0.0, {GPU})
    assert "pid 200" in str(newcomers.look(0.0)[GPU])


def test_a_search_that_cannot_be_finished_in_time_takes_somebody_to_be_there(root: pathlib.Path) -> None:
    for pid in range(100, 140):
        process(root, pid, 200)
    at_s, found = searched(root, Budget(steps=1000), 10.0)
    assert found[GPU].kind == "opened_unseen"
    assert NODE in str(found[GPU])
    assert at_s == pytest.approx(3.0, abs=0.1)


def test_a_search_that_goes_on_at_the_next_look_is_finished_and_finds_nobody(root: pathlib.Path) -> None:
    for pid in range(100, 110):
        process(root, pid, 100)
    at_s, found = searched(root, Budget(steps=1000), 10.0)
    assert (found, at_s < 3.0) == ({}, True)


def test_opens_without_pause_cost_no_more_than_the_budget_of_each_second(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(100, 110):
        process(root, pid, 40, nodes=1)
    budget, spent = Budget(steps=2000), []
    spend = budget.spend
    monkeypatch.setattr(budget, "spend", lambda descriptors: spent.append(spend(descriptors)) or spent[-1])
    at_s, found = searched(root, budget, 4.0, opens=4000)
    assert (at_s, found) == (4.0, {}), "a round a second is enough for each open"
    assert 4 * 500 < sum(spent) <= 4 * 2000 + 4 * 100


def test_of_a_node_that_nobody_opened_again_nobody_is_a_newcomer(root: pathlib.Path) -> None:
    process(root, 100, 3, nodes=4)
    newcomers = Newcomers(Proc(str(root)), {GPU: NODE}, lambda _: False, (), eager=False)
    newcomers.remember()
    newcomers.note_open(0.0, {GPU})
    assert newcomers.look(0.0) == {}
    (root / "100" / "fd" / "90").symlink_to(NODE)
    assert newcomers.look(0.001)[GPU].kind == "opened"
