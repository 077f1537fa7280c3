"""`fallow fill` on a real card: the newcomer never runs out of memory, and hardly waits."""

import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.gpu.visits import (
    Asks,
    Visited,
    against,
    failures,
    on_the_empty_card,
    start_fill,
    told,
    until,
    until_filled,
    used_share,
    visit,
)
from tests.interfaces.cli.filled import Fill
from tests.places import REPOSITORY

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

Report = Callable[[str, object], None]
HERE = pathlib.Path(__file__).parent
ROUNDS = 8
ASKS: Asks = (0.7,)


def rounds(fill: Fill, count: int) -> tuple[list[Visited], list[float]]:
    """Newcomers, one after the other, and after how many milliseconds the card was given back."""
    came, given_back = [], []
    for _ in range(count):
        until_filled(fill)
        came.append(visit(ASKS))
        line = fill.until("given back after")
        given_back.append(float(re.findall(r"after (\d+) ms", line)[0]))
    return came, given_back


def test_a_newcomer_never_runs_out_of_memory_when_a_filler_that_does_not_cooperate_is_killed(
    real: Fallow, report: Report
) -> None:
    empty = on_the_empty_card(ASKS, 8)
    fill = start_fill(real, "--yield", "kill", "--", sys.executable, str(HERE / "deaf_filler.py"))
    came, given_back = rounds(fill, ROUNDS)
    report(f"newcomers that ran out of memory, kill, of {ROUNDS}", failures(came))
    report("their start to first allocation, against empty", told(came, empty))
    report("given back after, median, worst", f"{statistics.median(given_back):.0f}, {max(given_back):.0f} ms")
    assert failures(came) == 0
    assert against(came, empty) <= 1.9


def test_for_comparison_a_poller_that_looks_once_a_second(real: Fallow, report: Report) -> None:
    failed = 0
    for _ in range(5):
        filler = real.start("burn", "--gpus", "0")
        until(lambda: used_share() > 0.85)
        over = threading.Event()

        def poll(filler: subprocess.Popen[str] = filler, over: threading.Event = over) -> None:
            query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
            own = len(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split())
            while not over.wait(1.0):
                if len(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()) > own:
                    filler.terminate()
                    return

        poller = threading.Thread(target=poll)
        poller.start()
        time.sleep(0.3)
        failed += visit(ASKS).failed
        over.set()
        poller.join()
        filler.terminate()
        filler.communicate()
        until(lambda: used_share() < 0.02)
    report("for comparison: a poll each second, of 5", f"{failed} ran out of memory")


def test_nvidia_smi_ten_times_a_second_makes_nobody_yield(real: Fallow, report: Report) -> None:
    fill = start_fill(real, "--", "fallow", "burn")
    fill.until("filling it")
    until(lambda: used_share() > 0.85)
    looks, began = 0, time.monotonic()
    while time.monotonic() < began + 30:
        subprocess.run(["nvidia-smi"], capture_output=True, check=True)
        looks += 1
        time.sleep(max(0.0, began + looks * 0.1 - time.monotonic()))
    assert used_share() > 0.85
    fill.process.terminate()
    _, said = fill.process.communicate()
    report("yields to nvidia-smi in 30 s, of so many", f"{said.count('giving it back')} of {looks}")
    assert "giving it back" not in said


def test_the_filler_is_back_soon_after_the_newcomer_has_left(real: Fallow, report: Report) -> None:
    fill = start_fill(real, "--", "fallow", "burn")
    fill.until("filling it")
    until(lambda: used_share() > 0.85)
    visit(ASKS)
    left = time.monotonic()
    fill.until("filling it")
    back_s = time.monotonic() - left
    report("newcomer gone to filler started, --idle-for 0.5s", f"{back_s:.2f} s")
    assert back_s <= 0.5 + 1.0


def test_when_fallow_is_killed_its_filler_and_its_memory_are_gone(real: Fallow, report: Report) -> None:
    fill = start_fill(real, "--", "fallow", "burn")
    fill.until("filling it")
    until(lambda: used_share() > 0.85)
    os.kill(fill.process.pid, signal.SIGKILL)
    took_s = until(lambda: used_share() < 0.02)
    report("SIGKILL of fallow to memory back", f"{1000 * took_s:.0f} ms")
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
    ) as visit:
        given_back = fill.until("given back after")
        assert given_back.endswith("it is suspended")
        pid, before = count()
        visit.communicate(b"\n")
    fill.until("resuming the filler")
    until(lambda: count()[1] > before)
    assert count()[0] == pid
    report("suspended with 1.3 GiB", re.findall(r"after (.*):", given_back)[0])
    report("its count before and after the visit", f"{before}, then {count()[1]}, same process")
    assert count()[1] - before < 200


BRIEF_VISIT = """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
print("here", flush=True)
input()
"""
