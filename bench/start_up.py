"""What a pick and a status cost, beside the least that any Python tool does, and beside other tools."""

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

from bench.machine import BIN, FALLOW, REPOSITORY, machine, promise

ROUNDS = 21
PICK_LIMIT, STATUS_LIMIT = 1.0, 1.4
# The least that a Python tool does with NVIDIA's binding: start, load it, ask each card what gpuselect asks.
FLOOR = """
import pynvml as n
n.nvmlInit()
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    n.nvmlDeviceGetUUID(h); n.nvmlDeviceGetName(h); n.nvmlDeviceGetUtilizationRates(h)
    n.nvmlDeviceGetMemoryInfo(h); n.nvmlDeviceGetComputeRunningProcesses(h)
    n.nvmlDeviceGetGraphicsRunningProcesses(h); n.nvmlDeviceGetTemperature(h, 0)
"""
PEERS = REPOSITORY / ".venv" / "peers"


def main() -> bool:
    """Measure, print, and say whether the promises were kept."""
    with machine() as here:
        for card in here.world:
            card.fan_speed = 30  # gpuselect fails on cards without a fan
        commands = {
            "floor: python, import pynvml, init, read 8 cards": [sys.executable, "-c", FLOOR],
            "fallow pick": [FALLOW, "pick"],
            "fallow status": [FALLOW, "status"],
            "gpustat": [str(BIN / "gpustat"), "--json"],
            **gpuselect(here.environ),
        }
        seconds = in_turns(commands, here.environ)
    floor = seconds[next(iter(commands))]
    print(f"one-shot on 8 stand-in cards, median of {ROUNDS}, in turns")
    for name, took in seconds.items():
        print(f"  {name:<50} {took * 1000:7.1f} ms  {took / floor:5.2f} x floor")
    pick, status = seconds["fallow pick"] / floor, seconds["fallow status"] / floor
    kept = promise(f"fallow pick at most {PICK_LIMIT} x floor", kept=pick <= PICK_LIMIT)
    return promise(f"fallow status at most {STATUS_LIMIT} x floor", kept=status <= STATUS_LIMIT) and kept


def gpuselect(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """A tool that picks, where the tests have installed it."""
    run = ["env", f"PYTHONPATH={PEERS}", sys.executable, "-m", "gpuselect"]
    console = PEERS / "bin" / "gpuselect"
    if console.exists():
        run = ["env", f"PYTHONPATH={PEERS}", sys.executable, str(console)]
    if subprocess.run(run, env=dict(environ), capture_output=True, check=False, timeout=60).returncode == 0:
        return {"gpuselect": run}
    print("(gpuselect does not run here)")
    return {}


def in_turns(commands: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, float]:
    """The median time of each, one after the other in rounds, so that noise hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, words in commands.items():
            if name == "gpustat" and number > ROUNDS // 4:
                continue  # it takes a second, and nobody doubts it
            began = time.perf_counter()
            subprocess.run(words, env=dict(environ), stdout=subprocess.DEVNULL, check=True, timeout=60)
            if number:  # the first round warms caches up
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}
