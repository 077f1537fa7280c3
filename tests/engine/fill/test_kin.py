"""Whose a process is: found from its ancestors, remembered while it lives, never taken from another's pid."""

import os
import pathlib

import pytest

from fallow.engine.fill.kin import KinFinder
from fallow.readers.proc import Proc

KEEPER = 500


class Table:
    """A /proc of processes that come and go."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self.keepers: set[int | None] = {KEEPER}
        self.kin = KinFinder(Proc(str(root)), lambda: self.keepers)
        self.put(1, 0)

    def put(self, pid: int, parent: int, birth: int = 7, state: str = "S") -> None:
        folder = self._root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} (work) {state} {parent} {'0 ' * 17}{birth} 0 0")

    def drop(self, pid: int) -> None:
        (self._root / str(pid) / "stat").unlink()

    def is_ours(self, pid: int) -> bool:
        self.kin.begin_turn()
        return self.kin.of(pid).ours


@pytest.fixture
def table(tmp_path: pathlib.Path) -> Table:
    return Table(tmp_path)


def test_below_a_keeper_it_is_ours_and_below_anything_else_it_is_not(table: Table) -> None:
    table.put(KEEPER, 1)
    table.put(600, KEEPER)
    table.put(700, 1)
    assert table.is_ours(600)
    assert table.kin.of(600).keeper == KEEPER
    assert not table.is_ours(700)


def test_a_stranger_stays_one_when_a_keeper_gets_the_pid_of_its_dead_ancestor(table: Table) -> None:
    table.keepers = set()
    table.put(KEEPER, 1)
    table.put(600, KEEPER)
    assert not table.is_ours(600)
    table.keepers = {KEEPER}
    assert not table.is_ours(600), "a process is not born to a keeper that came after it"


def test_ours_stays_ours_when_what_is_above_it_has_ended(table: Table) -> None:
    table.put(KEEPER, 1)
    table.put(550, KEEPER)
    table.put(600, 550)
    assert table.is_ours(600)
    table.drop(550)
    table.put(600, 1)
    assert table.is_ours(600)


def test_another_process_with_the_same_pid_is_looked_at_anew(table: Table) -> None:
    table.put(KEEPER, 1)
    table.put(600, KEEPER, birth=7)
    assert table.is_ours(600)
    table.put(600, 1, birth=8)
    assert not table.is_ours(600)
    assert not table.kin.of(600, 8).ours


def test_what_was_found_while_an_ancestor_ended_is_not_remembered(table: Table) -> None:
    table.put(600, 550)
    assert not table.is_ours(600), "nobody knows what is above 550"
    table.put(KEEPER, 1)
    table.put(550, KEEPER)
    assert table.is_ours(600)


def test_one_that_has_ended_is_not_there(table: Table) -> None:
    assert not table.kin.of(2**22 - 1).there


def test_what_a_hook_left_to_us_is_no_filler_s(table: Table) -> None:
    table.put(os.getpid(), 1)
    table.put(KEEPER, os.getpid())
    table.put(600, os.getpid())
    assert not table.is_ours(600), "a keeper that lives adopts what its filler leaves"


def test_until_its_end_is_known_what_a_killed_keeper_left_to_us_is_its_filler_s(table: Table) -> None:
    table.put(os.getpid(), 1)
    table.put(KEEPER, os.getpid(), state="Z")
    table.put(600, os.getpid())
    assert table.is_ours(600)
    table.keepers = set()
    assert not table.is_ours(600)
