"""Killed at any moment, history loses the last five seconds at most, and no older row."""

import pathlib
import random
import sqlite3
import subprocess
import sys

import pytest

from fallow.core.activity import Activity
from fallow.engine.history.reader import open_history
from tests.engine.history.life import START_S, gpu_status
from tests.engine.history.writer import CARDS, activity_at
from tests.places import REPOSITORY

KILLS = 12
START_MS = round(START_S * 1000)


def write_and_kill(folder: pathlib.Path, first: int, lines: int) -> int:
    """A writer from this tick on, killed while it goes on writing after so many; the last tick that it told."""
    words = [sys.executable, "-m", "tests.engine.history.writer", str(folder), str(first)]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        told = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.kill()
        rest = [int(line) for line in writer.stdout.read().splitlines()]
        assert writer.stderr.read() == ""
    return [*told, *rest][-1]


def seconds_of(folder: pathlib.Path, index: int) -> dict[int, Activity]:
    """What each second of a card was, as history has it."""
    past = open_history(str(folder))
    assert past is not None
    uuid = str(gpu_status(index, Activity.FREE).uuid)
    found: dict[int, Activity] = {}
    for one in past.strip(uuid, START_MS, START_MS + 10**9):
        begin, end = (one.begin_ms - START_MS) // 1000, (one.end_ms - START_MS) // 1000
        found.update((second, one.activity) for second in range(begin + 1, end + 1))
    past.close()
    return found


@pytest.mark.more
def test_a_kill_at_any_moment_loses_five_seconds_at_most_and_no_older_row(tmp_path: pathlib.Path) -> None:
    chance = random.Random(7)
    expected: set[int] = set()
    first = 0
    for _ in range(KILLS):
        last = write_and_kill(tmp_path, first, chance.randint(1, 60))
        found = seconds_of(tmp_path, 0)
        assert found == {second: activity_at(second) for second in found}, "every second is what it was"
        assert expected <= set(found), "nothing older is lost"
        ours = [second for second in found if second > first]
        newest = max(ours, default=first)
        assert ours == list(range(first + 1, newest + 1)), "without a hole"
        assert newest >= last - 5, "five seconds at most"
        assert newest <= last, "and nothing that was not seen"
        assert all(seconds_of(tmp_path, index) == found for index in range(1, CARDS))
        expected = set(found)
        first = last + 2  # a short gap, which nobody witnessed
    database = sqlite3.connect(tmp_path / "history.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
