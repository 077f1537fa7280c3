"""`make bench`: what fallow costs beside the floor and beside other tools, measured in turns in one run."""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

from bench.history import history
from bench.yields import yields
from tests.standin import Process, World, build

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.executable).parent
ROUNDS = 21
TICKS = 300
HANDOVERS = 20
PICK_LIMIT, TICK_LIMIT, HANDOVER_LIMIT_MS = 1.5, 3.0, 100.0
FILL_CPU_LIMIT = 0.003
WATCHED_S, CPU_LIMIT, MEMORY_LIMIT_MB = 20, 0.002, 40.0
UP_CPU_LIMIT, UP_MEMORY_LIMIT_MB = 0.005, 80.0

# The least that any Python tool does: start, load the binding, ask each card what gpuselect asks.
FLOOR = """
import pynvml as n
n.nvmlInit()
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    n.nvmlDeviceGetUUID(h); n.nvmlDeviceGetName(h); n.nvmlDeviceGetUtilizationRates(h)
    n.nvmlDeviceGetMemoryInfo(h); n.nvmlDeviceGetComputeRunningProcesses(h)
    n.nvmlDeviceGetGraphicsRunningProcesses(h); n.nvmlDeviceGetTemperature(h, 0)
"""


def main() -> int:
    """Measure, print a table, and fail if a promise is broken."""
    with tempfile.TemporaryDirectory() as folder:
        world = World.create(pathlib.Path(folder) / "world", cards=8)
        for card in world:
            card.fan_speed = 30  # gpuselect fails on cards without a fan
        held = [Process(os.getpid(), 2**30)]
        library = build(REPOSITORY / "build" / "standin")
        environ = {**os.environ, **world.environ(library), "FALLOW_CLAIM_DIR": f"{folder}/claims"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled, and so are we
        environ.pop("CUDA_VISIBLE_DEVICES", None)
        kept = [start_up(environ), hand_over(environ)]
        for card in world:
            card.compute = held
        kept.append(tick(environ))
        kept.append(supervision(world, environ))
        kept.append(daemon(world, environ))
        kept.append(yields(BIN, world, environ))
        environ.update(world.nodes(pathlib.Path(folder) / "dev"))
        kept.append(filling(world, environ))
    kept.append(history())
    return 0 if all(kept) else 1


def start_up(environ: Mapping[str, str]) -> bool:
    """A pick beside the floor and beside other tools."""
    commands = {
        "floor: python, import pynvml, init, read 8 cards": [sys.executable, "-c", FLOOR],
        "fallow pick": [str(BIN / "fallow"), "pick"],
        "gpustat": [str(BIN / "gpustat"), "--json"],
        **others(environ),
    }
    seconds = in_turns(commands, environ)
    floor = seconds[next(iter(commands))]
    print(f"one-shot on 8 stand-in cards, median of {ROUNDS}, in turns")
    for name, took in seconds.items():
        print(f"  {name:<50} {took * 1000:7.1f} ms  {took / floor:5.2f} x floor")
    kept = seconds["fallow pick"] / floor <= PICK_LIMIT
    print(f"  promise: fallow pick at most {PICK_LIMIT} x floor: {'kept' if kept else 'BROKEN'}\n")
    return kept


def others(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Other tools of this kind, where they install."""
    found: dict[str, list[str]] = {}
    for package, words in {"gpuselect": ["-m", "gpuselect"], "nvisel": ["-m", "nvisel", "-n", "1"]}.items():
        target = REPOSITORY / "build" / "bench" / package
        if not target.exists():
            words_for_pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--target",
                str(target),
                package,
            ]
            subprocess.run(words_for_pip, capture_output=True, check=False)
        run = [
            sys.executable,
            "-c",
            f"import sys, runpy; sys.path.insert(0, {str(target)!r}); "
            f"sys.argv = {[package, *words[2:]]!r}; runpy.run_module({package!r}, run_name='__main__')",
        ]
        console = target / "bin" / package
        if console.exists():
            run = ["env", f"PYTHONPATH={target}", sys.executable, str(console), *words[2:]]
        if subprocess.run(run, env=dict(environ), capture_output=True, check=False).returncode == 0:
            found[package] = run
        else:
            print(f"({package} does not install or does not run here)")
    return found


def in_turns(commands: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, float]:
    """The median time of each, one after the other in rounds, so that noise hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, words in commands.items():
            began = time.perf_counter()
            subprocess.run(words, env=dict(environ), stdout=subprocess.DEVNULL, check=True)
            if number:  # the first round warms caches up
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


TICK = f"""
import time, statistics, sys
import pynvml as n
from fallow.core.ports import Depth
from fallow.engine.clock import SystemClock
from fallow.readers.nvml_eyes import NvmlEyes
from fallow.readers.proc import Proc
eyes = NvmlEyes("bench", SystemClock(), Proc(), 2.0)
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
look = lambda: eyes.look(Depth.LOOK)
look(); bare(); look(); bare()
ours, theirs = [], []
for _ in range({TICKS}):
    ours.append(timed(look)); theirs.append(timed(bare))
print(statistics.median(ours), statistics.median(theirs))
"""


def tick(environ: Mapping[str, str]) -> bool:
    """One look at 8 cards beside the bare calls."""
    done = subprocess.run([sys.executable, "-c", TICK], env=dict(environ), capture_output=True, text=True, check=True)
    ours, bare = map(float, done.stdout.split())
    print(f"one tick over 8 cards, median of {TICKS}, in turns")
    print(f"  bare NVML calls {bare * 1000:.3f} ms, fallow {ours * 1000:.3f} ms: {ours / bare:.2f} x")
    kept = ours / bare <= TICK_LIMIT
    print(f"  promise: at most {TICK_LIMIT} x: {'kept' if kept else 'BROKEN'}\n")
    return kept


def hand_over(environ: Mapping[str, str]) -> bool:
    """From a release to the next in line having its card."""
    taken = [one_hand_over(environ) for _ in range(HANDOVERS)]
    print(f"from the end of a job to the start of the next in line, {HANDOVERS} times")
    print(f"  median {statistics.median(taken) * 1000:.1f} ms, worst {max(taken) * 1000:.1f} ms")
    kept = max(taken) * 1000 <= HANDOVER_LIMIT_MS
    print(f"  promise: within {HANDOVER_LIMIT_MS:.0f} ms: {'kept' if kept else 'BROKEN'}\n")
    return kept


def one_hand_over(environ: Mapping[str, str]) -> float:
    words = [str(BIN / "fallow"), "run", "--gpus", "0", "--wait", "--"]

    def start(*command: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*words, *command], env=dict(environ), stdin=pipe, stdout=pipe, stderr=pipe)

    holder = start("sh", "-c", "echo up; exec cat")
    assert holder.stdout is not None
    holder.stdout.readline()
    waiting = start("echo", "mine")
    assert waiting.stderr is not None
    assert waiting.stdout is not None
    waiting.stderr.readline()
    began = time.perf_counter()
    holder.kill()
    waiting.stdout.readline()
    took = time.perf_counter() - began
    holder.communicate()
    waiting.communicate()
    return took


def supervision(world: World, environ: Mapping[str, str]) -> bool:
    """What it costs to watch a job on 8 cards, one tick a second."""
    for card in world:
        card.compute = []
    words = [
        str(BIN / "fallow"),
        "run",
        "-n",
        "8",
        "--idle-timeout",
        "1h",
        "--",
        "sh",
        "-c",
        "echo $$; exec sleep 600",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env={**environ, "FALLOW_STATE_DIR": environ["FALLOW_CLAIM_DIR"]}, stdout=pipe
    ) as watcher:
        assert watcher.stdout is not None
        job = int(watcher.stdout.readline())
        for card in world:
            card.compute = [Process(job, 2**30)]
            card.utilization = 50
        time.sleep(3)  # starting up is not what is measured
        before = cpu_s(watcher.pid)
        time.sleep(WATCHED_S)
        share = (cpu_s(watcher.pid) - before) / WATCHED_S
        pages = int(pathlib.Path(f"/proc/{watcher.pid}/statm").read_text().split()[1])
        watcher.terminate()
    memory_mb = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    print(f"watching a job on 8 cards, one tick a second, for {WATCHED_S} s")
    print(f"  {share:.3%} of one core, {memory_mb:.1f} MB resident")
    kept = share <= CPU_LIMIT and memory_mb <= MEMORY_LIMIT_MB
    verdict = "kept" if kept else "BROKEN"
    print(f"  promise: at most {CPU_LIMIT:.1%} and {MEMORY_LIMIT_MB:.0f} MB: {verdict}")
    return kept


SETTLED_S = 65
UP_CONFIG = """
[[filler]]
name = "work"
command = "sleep 1000"
idle_for = "1s"
[[idle]]
name = "forgotten"
idle_for = "2h"
stuck_for = "1h"
[[guard]]
name = "evening"
action = "run:true"
unless = ["users", "cpu:20"]
"""


def daemon(world: World, environ: Mapping[str, str]) -> bool:
    """What `fallow up` costs on 8 cards, half of them held by somebody and half of them filled."""
    folder = pathlib.Path(environ["FALLOW_CLAIM_DIR"])
    file = folder / "fallow.toml"
    file.write_text(UP_CONFIG)
    file.chmod(0o600)
    nodes = world.nodes(folder / "devices")
    for card in world:
        card.compute = [Process(os.getpid(), 2**30)] if card.index % 2 else []
        card.utilization = 50 if card.index % 2 else 0
    places = {"FALLOW_STATE_DIR": f"{folder}/state", "FALLOW_SOCKET": f"{folder}/run/fallow.sock"}
    words = [str(BIN / "fallow"), "up", "--config", str(file), "--listen", "127.0.0.1:0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env={**environ, **nodes, **places}, stderr=pipe, text=True) as up:
        assert up.stderr is not None
        address = next(line for line in up.stderr if "the page is at" in line).split("http://")[1].split("/")[0]
        page = subprocess.Popen(["curl", "-sN", f"http://{address}/stream"], stdout=subprocess.DEVNULL)
        time.sleep(SETTLED_S)  # starting up, letting fillers in and counting seconds aloud is not what is measured
        before = cpu_s(up.pid)
        time.sleep(WATCHED_S)
        share = (cpu_s(up.pid) - before) / WATCHED_S
        pages = int(pathlib.Path(f"/proc/{up.pid}/statm").read_text().split()[1])
        page.kill()
        page.wait()
        up.terminate()
    memory_mb = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    print(f"fallow up on 8 cards, its page open, one tick a second, for {WATCHED_S} s")
    print(f"  {share:.3%} of one core, {memory_mb:.1f} MB resident")
    kept = share <= UP_CPU_LIMIT and memory_mb <= UP_MEMORY_LIMIT_MB
    verdict = "kept" if kept else "BROKEN"
    print(f"  promise: at most {UP_CPU_LIMIT:.1%} and {UP_MEMORY_LIMIT_MB:.0f} MB: {verdict}")
    return kept


def filling(world: World, environ: Mapping[str, str]) -> bool:
    """What it costs to fill 8 cards while nothing happens: fallow itself and the keepers of the fillers."""
    for card in world:
        card.compute, card.utilization = [], 0
    words = [str(BIN / "fallow"), "fill", "--users", "ignore", "--idle-for", "0", "--", "sleep", "600"]
    state = {**environ, "FALLOW_STATE_DIR": environ["FALLOW_CLAIM_DIR"]}
    with subprocess.Popen(words, env=state, stderr=subprocess.PIPE, text=True) as filler:
        assert filler.stderr is not None
        for _ in range(len(world)):
            next(line for line in filler.stderr if "filling it" in line)
        time.sleep(3)  # starting up is not what is measured
        below = pathlib.Path(f"/proc/{filler.pid}/task/{filler.pid}/children").read_text().split()
        pids = [filler.pid, *map(int, below)]
        before = sum(map(cpu_s, pids))
        time.sleep(WATCHED_S)
        share = (sum(map(cpu_s, pids)) - before) / WATCHED_S
        filler.terminate()
    print(f"\nfilling 8 cards while nothing happens, for {WATCHED_S} s, {len(pids) - 1} keepers among it")
    kept = share <= FILL_CPU_LIMIT
    print(f"  {share:.3%} of one core; promise: at most {FILL_CPU_LIMIT:.1%}: {'kept' if kept else 'BROKEN'}")
    return kept


def cpu_s(pid: int) -> float:
    """CPU time of a process, to the nanosecond: all its threads, those that ended among them."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock of a process, as clock_getcpuclockid(3) makes it


if __name__ == "__main__":
    sys.exit(main())
