"""Waiting for what another process makes happen."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.places import LIMIT_S

T = TypeVar("T")
PROGRAM_S = 1.0
"""The pause between two starts of a program that looks."""


def until(look: Callable[[], T], is_so: Callable[[T], bool] = bool, *, pause_s: float = 0.005) -> T:
    """Look until it is so, and return what was seen then. The pauses leave the CPU to those who are waited for."""
    by_s = time.monotonic() + LIMIT_S
    while not is_so(seen := look()):
        assert time.monotonic() < by_s, f"it never happened: {seen}"
        time.sleep(pause_s)
    return seen
