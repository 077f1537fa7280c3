"""Newcomers on a real card, with a filler on it and without, and how long they take."""

import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import pynvml

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill

HERE = pathlib.Path(__file__).parent
SETTLED_S = 2.0


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


class Visit:
    """One newcomer on its way."""

    def __init__(self, share: float | str, *before: str) -> None:
        """`before`: words to start it with, such as `unshare --pid --fork`."""
        words = [*before, sys.executable, str(HERE / "newcomer.py"), str(time.monotonic()), str(share)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def over(self) -> tuple[bool, float]:
        """Whether it ran out of memory, and how long after its start it had it."""
        out, _ = self._process.communicate(timeout=60)
        told = json.loads(out)
        return told["code"] != 0, told["took_s"]


def visit(share: float | str, *before: str) -> tuple[bool, float]:
    """One newcomer, to its end."""
    return Visit(share, *before).over()


def on_the_empty_card(share: float | str, count: int) -> list[float]:
    """How long newcomers take where nobody is."""
    until(lambda: used_share() < 0.02)
    return [visit(share)[1] for _ in range(count)]


def start_fill(real: Fallow, *words: str) -> Fill:
    """`fallow fill` with these options and this command."""
    return Fill(real.start("fill", "--gpus", "0", "--users", "ignore", "--idle-for", "0.5s", *words))


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


def against(took: Sequence[float], empty: Sequence[float]) -> float:
    """How many times as long as on the empty card."""
    return statistics.median(took) / statistics.median(empty)


def told(took: Sequence[float], empty: Sequence[float]) -> str:
    """The same, for the table."""
    ms, of_empty = (1000 * statistics.median(times) for times in (took, empty))
    return f"{ms:.0f} ms, {ms / of_empty:.2f} x {of_empty:.0f} ms"
