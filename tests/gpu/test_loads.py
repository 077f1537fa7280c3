"""Each kind of load on a real card, and what fallow makes of two looks at it: a hang is told from odd work."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from fallow.core.activity import judge
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.policies.hang import is_full, look_for_hang
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc
from tests.gpu import loads
from tests.gpu.conftest import Report

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(60)]

LOADS = [
    ("holds memory, does nothing", loads.HOLDS, "idle"),
    ("a hang: one thread spins", loads.SPINS, "hung"),
    ("a hang: one thread spins in each of 128 streams", loads.SPINS_IN_STREAMS, "hung"),
    ("a hang: 32 blocks of 544 threads wait", loads.WAITS, "hung"),
    ("matrix products, flat out", loads.MATMUL, "busy"),
    ("matrix products, 5 % of the time", loads.LITTLE, "busy"),
    ("copies from the host", loads.COPY, "busy"),
    ("a CUDA graph of kernels of one float", loads.GRAPH, "busy"),
    ("a CUDA graph of kernels of one integer", loads.INTEGERS, "busy"),
    ("fp64 singular values, 600 x 600", loads.SVD, "busy"),
]
# Loads PyTorch once, and runs each line of its stdin in a child of its own.
RUNS = """
import os, signal, sys, torch
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        exec(eval(line))
    print(child, flush=True)
"""
UNDER_WAY_S, BETWEEN_LOOKS_S = 4.0, 1.5
Run = Callable[[str], int]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Starts a program that has PyTorch at hand, and returns its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", RUNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

        def start(program: str) -> int:
            print(repr(program), file=server.stdin, flush=True)
            return int(server.stdout.readline())  # type: ignore[union-attr]

        yield start
        server.kill()


@pytest.fixture(scope="module")
def reader() -> Iterator[NvmlReader]:
    made = NvmlReader("here", SystemClock(), Proc(), 2.0)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize(("name", "program", "expected"), LOADS, ids=[name for name, *_ in LOADS])
def test_two_looks_tell_what_a_load_does(
    reader: NvmlReader, run: Run, report: Report, name: str, program: str, expected: str
) -> None:
    pid = run(loads.BEGIN + program)
    time.sleep(UNDER_WAY_S)
    reader.look(Depth.ALL)
    time.sleep(BETWEEN_LOOKS_S)
    gpu = reader.look(Depth.ALL).gpus[0]
    os.kill(pid, signal.SIGKILL)
    look = str(look_for_hang(gpu, frozenset({pid}), None).look) if is_full(gpu) else "not full"
    report(name, f"{readings(gpu)}: {look}")
    if expected == "hung":
        assert look == "hung"
    else:
        assert look != "hung"
        assert judge(gpu).activity == expected


def readings(gpu: Gpu) -> str:
    """What shows a hang."""
    bus = gpu.pcie_rx_bytes_per_s
    words = "no bus traffic read" if isinstance(bus, Unknown) else f"bus in {bus / 1e6:.1f} MB/s"
    return f"{gpu.utilization:.0%}, {gpu.power_w:.0f} W, {gpu.counters}, {words}"


def test_a_look_is_cheap(reader: NvmlReader, report: Report) -> None:
    for depth, limit_s in ((Depth.HOLDERS, 0.001), (Depth.ALL, 0.005)):
        began = time.perf_counter()
        for _ in range(100):
            reader.look(depth)
        took_s = (time.perf_counter() - began) / 100
        report(f"one look at {depth.value}", f"{took_s * 1000:.3f} ms")
        assert took_s < limit_s
