"""What fallow costs while it runs: a look, a watched job, and `fallow up` with its page open, on 8 stand-in cards."""

import http.client
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.machine import FALLOW, Machine, cpu_s, machine, promise, resident_mb, share_of_a_core
from fallow.engine.config.model import Config
from tests.standin import Process

TICKS, TICK_LIMIT = 300, 3.0
WATCHED_S, WATCH_LIMIT, WATCH_LIMIT_MB = 20, 0.003, 40.0
SETTLED_S, MINUTE_S = 20, 60
UP_LIMIT, UP_LIMIT_MB = 0.004, 70.0
VISITS, VISIT_LIMIT_MS = 20, 50.0
CONFIG = """
[[filler]]
name = "work"
command = "sleep 1000"
user = "{user}"
idle_for = "1s"
[[idle]]
name = "forgotten"
idle_for = "2h"
stuck_for = "1h"
[[guard]]
name = "evening"
action = "run:true"
user = "{user}"
unless = ["cpu:20"]
[terminals]
users = "ignore"
"""
TICK = f"""
import time, statistics
import pynvml as n
from fallow.core.ports import Depth
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc
n.nvmlInit()
reader = NvmlReader("bench", SystemClock(), Proc(), 2.0)
reader.open()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
samples = [[n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()] for _ in handles]
def bare():
    # The calls of one look at held cards whose counters tell enough, made with nothing around them.
    for h, pair in zip(handles, samples):
        n.nvmlDeviceGetUtilizationRates(h)
        n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
        n.nvmlDeviceGetComputeRunningProcesses_v3(h); n.nvmlDeviceGetGraphicsRunningProcesses_v3(h)
        n.nvmlDeviceGetMPSComputeRunningProcesses_v3(h); n.nvmlDeviceGetTemperature(h, 0)
        n.nvmlDeviceGetMinorNumber(h); n.nvmlDeviceGetCurrentClocksThrottleReasons(h)
        n.nvmlDeviceGetPowerUsage(h); n.nvmlDeviceGetEnforcedPowerLimit(h); n.nvmlDeviceGetPerformanceState(h)
        n.nvmlDeviceGetClockInfo(h, 1); n.nvmlDeviceGetClockInfo(h, 2)
        pair.reverse(); n.nvmlGpmSampleGet(h, pair[1])
        request = n.c_nvmlGpmMetricsGet_t(); request.version = 1; request.numMetrics = 9
        request.sample1, request.sample2 = pair
        for slot, metric in enumerate((2, 3, 5, 10, 21, 20, 11, 12, 13)): request.metrics[slot].metricId = metric
        try: n.nvmlGpmMetricsGet(request)
        except n.NVMLError: pass
def timed(what):
    began = time.process_time(); what(); return time.process_time() - began
look = lambda: reader.look(Depth.ALL)
look(); bare(); look(); bare()
ours, theirs = zip(*((timed(look), timed(bare)) for _ in range({TICKS})))
print(statistics.median(ours), statistics.median(theirs))
"""


def main() -> bool:
    """Measure all three."""
    return all([look(), watch(), up()])


def look() -> bool:
    """Beside the bare calls of NVIDIA's binding, in turns."""
    with machine() as here:
        here.occupy(os.getpid())
        words = [sys.executable, "-c", TICK]
        done = subprocess.run(words, env=here.environ, capture_output=True, text=True, check=True)
    ours, bare = map(float, done.stdout.split())
    print(f"one look, CPU, median of {TICKS}: bare {bare * 1e3:.3f} ms, fallow {ours * 1e3:.3f}: {ours / bare:.2f} x")
    return promise(f"at most {TICK_LIMIT} x", kept=ours / bare <= TICK_LIMIT)


def watch() -> bool:
    """`fallow run` with an idle timeout: one look a second."""
    job = ("sh", "-c", "echo $$; exec sleep 600")
    words = [FALLOW, "run", "-n", "8", "--idle-timeout", "1h", "--", *job]
    with machine() as here, subprocess.Popen(words, env=here.environ, stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None
        here.occupy(int(watcher.stdout.readline()))
        time.sleep(3)  # starting up is not what is measured
        share, memory_mb = share_of_a_core(watcher.pid, WATCHED_S), resident_mb(watcher.pid)
        watcher.terminate()
    print(f"watching a job, for {WATCHED_S} s: {share:.3%} of one core, {memory_mb:.1f} MB resident")
    kept = share <= WATCH_LIMIT and memory_mb <= WATCH_LIMIT_MB
    return promise(f"at most {WATCH_LIMIT:.1%} and {WATCH_LIMIT_MB:.0f} MB", kept=kept)


def up() -> bool:
    """The daemon, half of its cards held by somebody and half of them filled, and a visit to its page."""
    with machine() as here, up_on(here) as (pid, address):
        page = subprocess.Popen(["curl", "-sN", f"http://{address}/stream"], stdout=subprocess.DEVNULL)
        time.sleep(SETTLED_S)  # starting up, letting fillers in and counting aloud is not what is measured
        share, memory_mb = share_of_a_core(pid, MINUTE_S), resident_mb(pid)
        page.kill()
        page.wait()
        before_s = cpu_s(pid)
        for _ in range(VISITS):
            visit(address)
        visit_ms = (cpu_s(pid) - before_s) / VISITS * 1000
    every_s = Config().machine.every
    print(f"fallow up, its page open, one look every {every_s:g} s, for {MINUTE_S} s:")
    print(f"  {share:.3%} of one core, {memory_mb:.1f} MB resident; a visit to the page {visit_ms:.1f} ms of CPU")
    kept = share <= UP_LIMIT and memory_mb <= UP_LIMIT_MB and visit_ms <= VISIT_LIMIT_MS
    limits = f"{UP_LIMIT:.1%}, {UP_LIMIT_MB:.0f} MB and {VISIT_LIMIT_MS:.0f} ms a visit"
    return promise(f"at most {limits}", kept=kept)


@contextmanager
def up_on(here: Machine) -> Iterator[tuple[int, str]]:
    """A daemon: its pid, and where its page is."""
    file = here.folder / "fallow.toml"
    file.write_text(CONFIG.format(user=pwd.getpwuid(os.geteuid()).pw_name))
    file.chmod(0o600)
    here.give_nodes()
    for card in here.world:
        card.compute = [Process(os.getpid(), 2**30)] if card.index % 2 else []
        card.utilization = 50 if card.index % 2 else 0
    words = [FALLOW, "up", "--config", str(file), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, env=here.environ, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        said = next(line for line in daemon.stderr if "the page is at http://" in line)
        yield daemon.pid, said.split("http://")[1].split("/")[0]
        daemon.terminate()


def visit(address: str) -> None:
    """Read the page once."""
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/")
    assert connection.getresponse().read()
    connection.close()
