"""Newcomers on a real card, with a filler on it and without, and how long they take."""

import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pynvml

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill

HERE = pathlib.Path(__file__).parent
SETTLED_S = 0.6  # the driver wipes what was freed before, at 0.4 TB/s
Asks = tuple[float | str, ...]
"""What a newcomer asks for: a share of the card and, if in pieces, of how many GiB; or `torch`."""


def used_share() -> float:
    """How much of the card's memory is in use."""
    pynvml.nvmlInit()
    memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
    return float(memory.used / memory.total)


def until(happened: Callable[[], bool], limit_s: float = 30.0) -> float:
    """Seconds until then."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() < began + limit_s, "it never happened"
        time.sleep(0.001)
    return time.monotonic() - began


class Visited(NamedTuple):
    """What one newcomer tells."""

    failed: bool
    """It ran out of memory."""
    loaded_s: float
    """How long after its start it had loaded its libraries; only then it comes to the card."""
    waited_s: float
    """How long after that it had its memory."""


class Visit:
    """One newcomer on its way."""

    def __init__(self, asks: Asks, *before: str) -> None:
        """`before`: words to start it with, such as `unshare --pid --fork`."""
        words = [*before, sys.executable, str(HERE / "newcomer.py"), str(time.monotonic()), *map(str, asks)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def over(self) -> Visited:
        """What it tells at its end."""
        out, _ = self._process.communicate(timeout=60)
        told = json.loads(out)
        return Visited(told["code"] != 0, told["loaded_s"], told["took_s"] - told["loaded_s"])


def visit(asks: Asks, *before: str) -> Visited:
    """One newcomer, to its end."""
    return Visit(asks, *before).over()


def on_the_empty_card(asks: Asks, count: int) -> list[Visited]:
    """Newcomers where nobody is."""
    until(lambda: used_share() < 0.02)
    return [visit(asks) for _ in range(count)]


def start_fill(real: Fallow, *words: str) -> Fill:
    """`fallow fill` with these options and this command."""
    return Fill(real.start("fill", "--gpus", "0", "--users", "ignore", "--idle-for", "0.1s", *words))


def until_filled(fill: Fill) -> None:
    """Until the filler has its memory, and the driver has wiped what was freed before."""
    fill.until("filling it")
    until(lambda: used_share() > 0.85)
    time.sleep(SETTLED_S)


def end(fill: Fill) -> None:
    """Until nothing of it is left."""
    fill.process.terminate()
    fill.process.communicate()
    until(lambda: used_share() < 0.02)


def failures(came: Sequence[Visited]) -> int:
    """How many of them ran out of memory."""
    return sum(each.failed for each in came)


def against(came: Sequence[Visited], empty: Sequence[Visited]) -> float:
    """How many times as long as on the empty card, from the start of the program."""
    took_s, empty_s = _typical_s(came, empty)
    return took_s / empty_s


def told(came: Sequence[Visited], empty: Sequence[Visited]) -> str:
    """The same, for the table."""
    took_s, empty_s = _typical_s(came, empty)
    return f"{1000 * took_s:.0f} ms, {took_s / empty_s:.2f} x {1000 * empty_s:.0f} ms"


def _typical_s(came: Sequence[Visited], empty: Sequence[Visited]) -> tuple[float, float]:
    """How long both take from their start, in the median.

    Both load the same libraries before they come to the card. For PyTorch that takes seconds, one more or less each
    time, which would hide all that follows, so it counts as the median of all of them.
    """
    loading_s = statistics.median(each.loaded_s for each in (*came, *empty))
    took_s, empty_s = (loading_s + statistics.median(each.waited_s for each in group) for group in (came, empty))
    return took_s, empty_s
