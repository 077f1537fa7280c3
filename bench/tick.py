"""One look at 8 cards beside the bare calls of NVIDIA's binding."""

import os
import subprocess
import sys

from bench.machine import machine, promise

TICKS = 300
LIMIT = 3.0
TICK = f"""
import time, statistics, sys
import pynvml as n
n.nvmlInit()
from fallow.core.ports import Depth
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc
reader = NvmlReader("bench", SystemClock(), Proc(), 2.0)
reader.open()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
def quietly(call, *args):
    try: call(*args)
    except n.NVMLError: pass
samples = {{}}
def bare():
    # The calls of one look at held cards whose counters tell enough, made with nothing around them.
    for i, h in enumerate(handles):
        n.nvmlDeviceGetUtilizationRates(h)
        n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
        n.nvmlDeviceGetComputeRunningProcesses_v3(h); n.nvmlDeviceGetGraphicsRunningProcesses_v3(h)
        n.nvmlDeviceGetMPSComputeRunningProcesses_v3(h); n.nvmlDeviceGetTemperature(h, 0)
        n.nvmlDeviceGetMinorNumber(h); n.nvmlDeviceGetCurrentClocksThrottleReasons(h)
        n.nvmlDeviceGetPowerUsage(h); n.nvmlDeviceGetEnforcedPowerLimit(h)
        n.nvmlDeviceGetClockInfo(h, 1); n.nvmlDeviceGetClockInfo(h, 2)
        pair = samples.setdefault(i, [n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()])
        pair.reverse(); n.nvmlGpmSampleGet(h, pair[1])
        request = n.c_nvmlGpmMetricsGet_t(); request.version = 1; request.numMetrics = 6
        request.sample1, request.sample2 = pair
        for slot, metric in enumerate((2, 3, 5, 10, 21, 20)): request.metrics[slot].metricId = metric
        quietly(n.nvmlGpmMetricsGet, request)
def timed(what):
    began = time.perf_counter(); what(); return time.perf_counter() - began
look = lambda: reader.look(Depth.ALL)
look(); bare(); look(); bare()
ours, theirs = [], []
for _ in range({TICKS}):
    ours.append(timed(look)); theirs.append(timed(bare))
print(statistics.median(ours), statistics.median(theirs))
"""


def main() -> bool:
    """Measure, print, and say whether the promise was kept."""
    with machine() as here:
        here.occupy(os.getpid())
        done = subprocess.run(
            [sys.executable, "-c", TICK], env=here.environ, capture_output=True, text=True, check=True, timeout=60
        )
    ours, bare = map(float, done.stdout.split())
    print(f"one tick over 8 cards, median of {TICKS}, in turns")
    print(f"  bare NVML calls {bare * 1000:.3f} ms, fallow {ours * 1000:.3f} ms: {ours / bare:.2f} x")
    return promise(f"at most {LIMIT} x", kept=ours / bare <= LIMIT)
