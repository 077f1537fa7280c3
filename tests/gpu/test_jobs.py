"""Jobs under `fallow run` on a real card: one that idles, one that hangs, one that works a little."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Fallow
from tests.gpu import loads
from tests.gpu.conftest import Report

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(90)]

LOUD = 24
WORKED_S = 18
FAST = ("--warmup", "3s", "--every", "1s", "--grace", "3s")
IDLES = loads.BEGIN + "a @ a\ntorch.cuda.synchronize()\ntime.sleep(600)\n"
ENDS = f"import os, threading\nthreading.Timer({WORKED_S}, os._exit, (0,)).start()\nprint('works', flush=True)\n"


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
    job = fallow.start("run", *words, *FAST, "--", sys.executable, "-c", program)
    _, err = job.communicate(timeout=80)
    return job.returncode, err


def test_a_job_that_idles_is_stopped_and_its_memory_is_back(real: Fallow, report: Report) -> None:
    code, err = run(real, IDLES, "--idle-timeout", "5s")
    assert code == 124, err
    assert "still held" not in err
    assert "the memory of its GPUs is back" in real("why", "0").stdout
    report("a job that idles", err.strip().splitlines()[-1])


def test_a_hang_at_full_utilization_is_stopped(real: Fallow, report: Report) -> None:
    words = ("--stuck-timeout", "8s", "--idle-timeout", "100s")
    code, err = run(real, f"{loads.BEGIN}time.sleep(6)\n{loads.SPINS}", *words)
    assert code == 124, err
    assert "stuck" in err
    report("a hang", err.strip().splitlines()[-1])


def test_a_job_that_works_five_per_cent_beside_loud_ones_lives(
    real: Fallow, report: Report, loud: Callable[[], None]
) -> None:
    limits = ("--idle-timeout", "8s")
    program = ENDS + loads.BEGIN + loads.LITTLE
    job = real.start("run", *limits, *FAST, "--", sys.executable, "-c", program)
    assert job.stdout is not None
    assert job.stdout.readline() == "works\n"
    loud()
    _, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    report(f"a job that works 5 % of each second beside {LOUD} loud ones", err.strip().splitlines()[-1])


def test_cuda_sees_the_card_that_was_claimed_and_status_agrees_with_nvidia_smi(real: Fallow, report: Report) -> None:
    query = ["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"]
    uuid, name, total = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    gpu = json.loads(real("status", "--json").stdout)["gpus"][0]
    assert (gpu["uuid"], gpu["name"], gpu["memory_total_bytes"] // 2**20) == (uuid, name, int(total))
    assert gpu["activity"] == "free", gpu
    report("readings unknown on an empty card", ", ".join(sorted(gpu["unknown"])) or "none")
    program = "from cuda.bindings import driver; driver.cuInit(0); print(int(driver.cuDeviceGetCount()[1]))"
    done = real("run", "--", sys.executable, "-c", f"import os; print(os.environ['CUDA_VISIBLE_DEVICES']); {program}")
    assert done.stdout.split() == [uuid, "1"], done.stderr
