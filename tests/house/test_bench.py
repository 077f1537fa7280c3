"""`make bench` comes to its end, whatever one of its parts does."""

import subprocess
import sys
import time

import pytest

from bench.__main__ import PARTS, finished
from tests.places import LIMIT_S, REPOSITORY


@pytest.mark.more
def test_a_part_that_does_not_end_is_ended_and_counts_as_broken() -> None:
    """F15"""
    began_s = time.monotonic()
    assert not finished("history-in-full", 2.0)
    assert time.monotonic() - began_s < LIMIT_S


def test_the_limits_of_all_parts_are_known_before_they_begin() -> None:
    assert all(0 < limit_s <= 200 for limit_s in PARTS.values())


def test_a_part_that_there_is_not_is_refused() -> None:
    words = [sys.executable, "-m", "bench", "nosuch"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stdout
