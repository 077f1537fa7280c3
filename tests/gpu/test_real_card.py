"""What only a real card can show. Run by scripts/gpu-suite; needs an NVIDIA GPU that nobody uses, and PyTorch."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fallow.core.activity import judge
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc
from tests.conftest import Fallow

pytestmark = pytest.mark.gpu

HOLDS = "import torch; x = torch.empty(8 * 2**30, dtype=torch.uint8, device='cuda'); print('up', flush=True); input()"
WORKS = """
import torch, time
a = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)
torch.cuda.synchronize(); print('up', flush=True)
while True:
    began = time.monotonic()
    while time.monotonic() < began + {busy}:
        a @ a
        torch.cuda.synchronize()
    time.sleep({rest})
"""
Start = Callable[[str], int]


@pytest.fixture
def start(fallow: Fallow) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(program: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def real(fallow: Fallow) -> Fallow:
    fallow.environ = {**os.environ, **fallow.environ}
    return fallow


def card(fallow: Fallow) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fallow("status", "--json").stdout)["gpus"][0]
    return found


def until_free(fallow: Fallow) -> None:
    """Until the driver has torn down whoever was there before."""
    assert fallow("pick", "--wait", "60s").returncode == 0


def test_an_empty_card_is_free_and_agrees_with_nvidia_smi(
    real: Fallow, report: Callable[[str, object], None]
) -> None:
    until_free(real)
    gpu = card(real)
    assert gpu["activity"] == "free", gpu
    query = "uuid,name,memory.total,memory.used,temperature.gpu"
    words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    uuid, name, total, used, _ = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split(", ")
    assert (gpu["uuid"], gpu["name"]) == (uuid, name)
    assert gpu["memory_total_bytes"] // 2**20 == int(total)
    assert abs(gpu["memory_used_bytes"] / 2**20 - int(used)) < 64
    report("memory in use on an empty card", f"{gpu['memory_used_bytes'] / 2**20:.1f} MiB")
    report("readings unknown on an empty card", ", ".join(sorted(gpu["unknown"])) or "none")


def test_a_holder_that_does_nothing_makes_it_idle_and_not_picked(real: Fallow, start: Start) -> None:
    until_free(real)
    pid = start(HOLDS)
    time.sleep(15)  # the driver's samples must have forgotten how it started
    gpu = card(real)
    assert gpu["activity"] == "idle", gpu
    assert [holder["pid"] for holder in gpu["holders"]] == [pid]
    assert gpu["holders"][0]["memory_bytes"] > 8 * 2**30
    refused = real("pick")
    assert refused.returncode == 75
    assert f"held by pid {pid}" in refused.stderr


@pytest.mark.parametrize(("busy", "rest"), [(10.0, 0.0), (0.05, 0.95)])
def test_work_is_busy_even_when_it_is_five_per_cent_of_each_second(
    real: Fallow, start: Start, busy: float, rest: float
) -> None:
    start(WORKS.format(busy=busy, rest=rest))
    time.sleep(5)  # so many seconds of samples to judge by
    assert card(real)["activity"] == "busy"


def test_counters_tell_matrix_work(start: Start, report: Callable[[str, object], None]) -> None:
    start(WORKS.format(busy=10.0, rest=0.0))
    gpu_reader = NvmlReader("here", SystemClock(), Proc(), 2.0)
    gpu_reader.look(Depth.ALL)
    time.sleep(1)  # the stretch that is counted
    gpu = gpu_reader.look(Depth.ALL).gpus[0]
    assert not isinstance(gpu.counters, Unknown)
    assert not isinstance(gpu.counters.tensor, Unknown)
    assert gpu.counters.tensor > 0.5
    assert judge(gpu).activity == "busy"
    report("matrix work: tensor, power", f"{gpu.counters.tensor:.0%}, {gpu.power_w} W")
    gpu_reader.close()


def test_cuda_sees_the_card_that_was_claimed(real: Fallow) -> None:
    until_free(real)
    program = "import torch, os; print(torch.cuda.device_count(), os.environ['CUDA_VISIBLE_DEVICES'][:4])"
    done = real("run", "--wait", "60s", "--", sys.executable, "-c", program)
    assert done.stdout.split() == ["1", "GPU-"], done.stderr


def test_a_look_is_cheap(report: Callable[[str, object], None]) -> None:
    gpu_reader = NvmlReader("here", SystemClock(), Proc(), 2.0)
    took: dict[Depth, float] = {}
    for depth in Depth:
        gpu_reader.look(depth)
        began = time.perf_counter()
        for _ in range(200):
            gpu_reader.look(depth)
        took[depth] = (time.perf_counter() - began) / 200
        report(f"one {depth.name.lower()} at one card", f"{took[depth] * 1000:.3f} ms")
    gpu_reader.close()
    assert took[Depth.HOLDERS] < 0.05
