"""A disk that is full stops history and nothing else; it is told once, and goes on by itself when there is room."""

import os
import pathlib
import subprocess
import sys

import pytest

from fallow.core.activity import Activity
from tests.engine.history.crowded import FULL, ROOM, ROOM_AGAIN
from tests.engine.history.test_killed import seconds_of
from tests.engine.history.writer import activity_at
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more


def check(told: str, found: dict[int, Activity]) -> None:
    """Two sentences, one when it failed and one when it went on; and every second of which there was room to tell."""
    first, second = told.splitlines()
    assert ROOM <= int(first.split()[0]) <= ROOM + 10
    assert "history is not kept" in first
    assert FULL <= int(second.split()[0]) <= FULL + 70
    assert second.endswith("history is kept again")
    assert found == {at: activity_at(at) for at in found}
    assert set(found) >= set(range(1, ROOM - 5)), "no older row is lost"
    assert set(found) >= set(range(1, ROOM_AGAIN - 5)), "and what waited in memory is there too"


def test_files_that_may_not_grow_stop_history_only(tmp_path: pathlib.Path) -> None:
    words = [sys.executable, "-m", "tests.engine.history.crowded", "limit", str(tmp_path)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    check(done.stdout, seconds_of(tmp_path / "state", 3))


def test_a_file_system_that_is_full_stops_history_only(tmp_path: pathlib.Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own needs root")
    (tmp_path / "small").mkdir()
    (tmp_path / "copy").mkdir()
    script = 'mount -t tmpfs -o size=1m none "$2" && exec "$1" -m tests.engine.history.crowded mount "$2"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, str(tmp_path / "small")]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
    check(done.stdout, seconds_of(tmp_path / "copy", 3))
