"""A disk that is full stops history and nothing else; it is told once, and goes on by itself when there is room."""

import pathlib
import subprocess
import sys

from tests.engine.history.test_killed import seconds_of
from tests.engine.history.writer import activity_at
from tests.places import LIMIT_S, REPOSITORY

ROOM, FULL, ROOM_AGAIN = 60, 200, 300
RECORD = f"""
import resource, sys
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.writer import tick
history = HistoryWriter(sys.argv[1], lambda sentence: print(second, sentence, flush=True))
for second in range({ROOM_AGAIN}):
    if second in ({ROOM}, {FULL}):  # no file may grow, then all may
        most = 12_000 if second == {ROOM} else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    history.record(tick(second))
    history.settle(60.0)
history.close()
"""


def test_a_disk_that_is_full_stops_history_only(tmp_path: pathlib.Path) -> None:
    words = [sys.executable, "-c", RECORD, str(tmp_path / "state")]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert ROOM <= int(first.split()[0]) <= ROOM + 10
    assert "history is not kept" in first
    assert FULL <= int(second.split()[0]) <= FULL + 70
    assert second.endswith("history is kept again")
    found = seconds_of(tmp_path / "state", 3)
    assert found == {at: activity_at(at) for at in range(1, ROOM_AGAIN)}, "and what waited in memory is there too"
