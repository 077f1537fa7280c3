"""Real jobs on a real card, idle, hanging and working. Run by scripts/gpu-suite."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from tests.conftest import Fallow
from tests.gpu import loads

pytestmark = pytest.mark.gpu

LOUD, LOOKS = 24, 20
FAST = ("--warmup", "5s", "--every", "1s", "--grace", "5s")
BEGIN = "import time, torch\na = torch.randn(4096, 4096, device='cuda', dtype=torch.bfloat16)\n"
IDLES = BEGIN + "a @ a\ntorch.cuda.synchronize()\ntime.sleep(600)\n"
SEEN_IDLE = BEGIN + "torch.cuda.synchronize()\ntime.sleep(8)\n"
ENDS = "import os, threading\nthreading.Timer(30, os._exit, (0,)).start()\n"
WORKS_A_LITTLE = BEGIN + (
    "print('works', flush=True)\n"
    "until = time.monotonic() + 25\n"
    "while time.monotonic() < until:\n"
    "    began = time.monotonic()\n"
    "    while time.monotonic() < began + 0.05:\n"
    "        a @ a\n"
    "        torch.cuda.synchronize()\n"
    "    time.sleep(0.95)\n"
)


@pytest.fixture
def real(fallow: Fallow) -> Fallow:
    fallow.environ = {**os.environ, **fallow.environ}
    return fallow


@pytest.fixture
def loud() -> Iterator[Callable[[], None]]:
    """Keeps the card busy with many processes."""
    started: list[subprocess.Popen[str]] = []

    def start() -> None:
        words = [sys.executable, str(Path(__file__).with_name("loud.py"))]
        started.extend(subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(LOUD))
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "loud\n"

    yield start
    for each in started:
        each.kill()
        each.communicate()


def run(fallow: Fallow, program: str, *words: str) -> tuple[int, str]:
    job = fallow.start("run", "--wait", "60s", *words, *FAST, "--", sys.executable, "-c", program)
    _, err = job.communicate(timeout=100)
    return job.returncode, err


def test_a_job_that_idles_is_stopped_and_its_memory_is_back(
    real: Fallow, report: Callable[[str, object], None]
) -> None:
    code, err = run(real, IDLES, "--idle-timeout", "8s")
    assert code == 124, err
    assert "still held" not in err
    told = real("why", "0").stdout
    assert "the memory of its GPUs is back" in told
    report("a job that idles", err.strip().splitlines()[-1])


@pytest.mark.parametrize(
    "hang",
    [loads.SPINS, loads.SPINS_IN_STREAMS, loads.WAITS],
    ids=["one thread spins", "one thread spins in each of 128 streams", "a collective waits"],
)
def test_a_hang_at_full_utilization_is_stopped(
    real: Fallow, report: Callable[[str, object], None], hang: str
) -> None:
    code, err = run(real, SEEN_IDLE + hang, "--stuck-timeout", "15s", "--idle-timeout", "100s")
    assert code == 124, err
    assert "stuck" in err
    report("a hang", err.strip().splitlines()[-1])


@pytest.mark.parametrize(
    "program",
    [WORKS_A_LITTLE, *(ENDS + loads.BEGIN + load for load in (loads.COPY, loads.GRAPH, loads.INTEGERS, loads.SVD))],
    ids=["works 5 % of each second", "copies from the host", "graph of one float", "graph of one integer", "fp64"],
)
def test_a_job_that_works_lives(real: Fallow, program: str) -> None:
    code, err = run(real, program, "--idle-timeout", "8s", "--stuck-timeout", "8s")
    assert code == 0, err


def test_a_job_that_works_beside_loud_ones_lives_though_the_driver_hardly_names_it(
    real: Fallow, report: Callable[[str, object], None], loud: Callable[[], None]
) -> None:
    program = WORKS_A_LITTLE.replace("+ 25", "+ 50")
    limits = ("--idle-timeout", "8s")
    job = real.start("run", "--wait", "60s", *limits, *FAST, "--", sys.executable, "-c", program)
    assert job.stdout is not None
    assert job.stdout.readline() == "works\n"
    loud()
    named = looks_that_name_a_child_of(job.pid)
    _, err = job.communicate(timeout=100)
    assert job.returncode == 0, err
    report(f"a job that works 5 % of each second beside {LOUD} loud ones: looks that name it, of {LOOKS}", named)


def looks_that_name_a_child_of(pid: int) -> int:
    """In how many looks the driver's samples name the job."""
    own = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    pynvml.nvmlInit()
    card, since_us, named = pynvml.nvmlDeviceGetHandleByIndex(0), 0, 0
    for _ in range(LOOKS):
        time.sleep(1)  # one look a second, as fallow takes them
        samples = pynvml.nvmlDeviceGetProcessUtilization(card, since_us)
        since_us = max(sample.timeStamp for sample in samples)
        named += any(sample.pid in own for sample in samples)
    return named


def test_watching_a_card_costs_little(real: Fallow, report: Callable[[str, object], None]) -> None:
    job = real.start("run", "--wait", "60s", "--idle-timeout", "1h", "--", sys.executable, "-c", f"print(1)\n{IDLES}")
    assert job.stdout is not None
    job.stdout.readline()
    time.sleep(5)  # starting up is not what is measured
    before = _cpu_s(job.pid)
    time.sleep(10)  # the stretch that is measured
    report("watching one card, of one core", f"{(_cpu_s(job.pid) - before) / 10:.3%}")
    job.terminate()  # which is passed on to the job
    job.communicate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
