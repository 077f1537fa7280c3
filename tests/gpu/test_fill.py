"""`fallow fill` on a real card: who makes it yield and who does not, how it kills, suspends and comes back."""

import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.conftest import Fallow
from tests.gpu.conftest import Report
from tests.gpu.visits import (
    Asks,
    against,
    end,
    failures,
    on_the_empty_card,
    start_fill,
    told,
    until,
    until_filled,
    used_share,
    visit,
)
from tests.places import REPOSITORY

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

HERE = pathlib.Path(__file__).parent
NEWCOMERS = 6
LARGE: Asks = (0.7,)
WATCHED_S = 10
PYNVML = """
import pynvml, time
while True:
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceGetUtilizationRates(card), pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    pynvml.nvmlShutdown()
    time.sleep(0.02)
"""
MONITORS = (["nvidia-smi", "dmon"], ["nvidia-smi", "pmon"], [sys.executable, "-c", PYNVML])
BRIEF_VISIT = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
print("here", flush=True)
input()
"""


def test_no_monitor_makes_the_filler_yield(real: Fallow, report: Report) -> None:
    fill = start_fill(real, "--", "fallow", "burn")
    until_filled(fill)
    looks, began = 0, time.monotonic()
    with ExitStack() as others:
        for words in MONITORS:
            others.callback(others.enter_context(subprocess.Popen(words, stdout=subprocess.DEVNULL)).kill)
        while time.monotonic() < began + WATCHED_S:
            subprocess.run(["nvidia-smi"], capture_output=True, check=True)
            looks += 1
    assert used_share() > 0.85
    fill.process.terminate()
    _, said = fill.process.communicate()
    yields = said.count("giving it back")
    report(f"yields to {looks} nvidia-smi, dmon, pmon and a pynvml loop", yields)
    assert yields == 0


def test_a_newcomer_never_runs_out_of_memory_when_a_filler_that_does_not_cooperate_is_killed(
    real: Fallow, report: Report
) -> None:
    empty = on_the_empty_card(LARGE, NEWCOMERS)
    fill = start_fill(real, "--yield", "kill", "--", sys.executable, str(HERE / "deaf_filler.py"))
    came, given_back = [], []
    for _ in range(NEWCOMERS):
        until_filled(fill)
        came.append(visit(LARGE))
        given_back.append(float(re.findall(r"after (\d+) ms", fill.until("given back after"))[0]))
    end(fill)
    report("newcomers out of memory, 70 % beside a filler that hears nothing", f"{failures(came)} of {NEWCOMERS}")
    report("start to memory beside it, against empty", told(came, empty))
    report("given back after, median, worst", f"{statistics.median(given_back):.0f}, {max(given_back):.0f} ms")
    assert failures(came) == 0
    assert against(came, empty) <= 1.9


def test_the_filler_is_back_soon_after_the_newcomer_has_left_and_gone_when_fallow_is_killed(
    real: Fallow, report: Report
) -> None:
    fill = start_fill(real, "--", "fallow", "burn")
    until_filled(fill)
    visit(LARGE)
    left = time.monotonic()
    fill.until("filling it")
    back_s = time.monotonic() - left
    report("newcomer gone to filler started", f"{back_s:.2f} s")
    until(lambda: used_share() > 0.85)
    os.kill(fill.process.pid, signal.SIGKILL)
    took_s = until(lambda: used_share() < 0.02)
    report("SIGKILL of fallow to memory back", f"{1000 * took_s:.0f} ms")
    assert back_s <= 1.5
    assert took_s < 1.0


def test_a_suspended_filler_goes_on_with_its_count(real: Fallow, report: Report, tmp_path: pathlib.Path) -> None:
    counts = tmp_path / "counts"

    def count() -> tuple[int, int]:
        pid, number = counts.read_text().split()
        return int(pid), int(number)

    words = ("--yield", "suspend", "--")
    fill = start_fill(real, *words, sys.executable, str(HERE / "counting_filler.py"), str(counts))
    until(lambda: counts.exists() and count()[1] >= 50)
    with subprocess.Popen(
        [sys.executable, "-c", BRIEF_VISIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as newcomer:
        given_back = fill.until("given back after")
        assert given_back.endswith("it is suspended")
        pid, before = count()
        newcomer.communicate(b"\n")
    fill.until("resuming the filler")
    until(lambda: count()[1] > before)
    assert count()[0] == pid
    report("suspended with 1.3 GiB", re.findall(r"after (.*):", given_back)[0])
    report("its count before and after the visit", f"{before}, then {count()[1]}, same process")
    assert count()[1] - before < 200
    end(fill)
