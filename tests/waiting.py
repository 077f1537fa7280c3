"""Waiting for what another process makes happen."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

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


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a program and wait for it, but not for others that have its pipes open."""
    process.kill()
    process.wait(LIMIT_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a program with all of the process group that it leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    end(process)
