"""What short commands cost, beside the least that any Python tool does."""

import statistics
import sys
from collections.abc import Mapping

from bench.machine import FALLOW, Spent, machine, promise, timed

ROUNDS = 21
PROMISED = {"fallow pick": 1.0, "fallow status": 1.6, "fallow run -- true": 1.3, "fallow --help": 1.0}
FLOOR_NAME = "floor: python, import pynvml, init, read 8 cards"
# The least that a Python tool does with NVIDIA's binding: start, load it, ask each card what gpuselect asks.
FLOOR = """
import pynvml as n
n.nvmlInit()
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    n.nvmlDeviceGetUUID(h); n.nvmlDeviceGetName(h); n.nvmlDeviceGetUtilizationRates(h)
    n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2); n.nvmlDeviceGetComputeRunningProcesses(h)
    n.nvmlDeviceGetGraphicsRunningProcesses(h); n.nvmlDeviceGetTemperature(h, 0)
"""


def main() -> bool:
    """Measure, print, and say whether the promises were kept."""
    with machine() as here:
        ours = {name: [FALLOW, *name.split()[1:]] for name in PROMISED}
        bare = {"bare python": [sys.executable, "-c", "pass"], FLOOR_NAME: [sys.executable, "-c", FLOOR]}
        spent = in_turns({**bare, **ours}, here.environ)
    floor = spent[FLOOR_NAME]
    print(f"one-shot on 8 stand-in cards, median of {ROUNDS}, in turns")
    for name, (wall_s, cpu_s) in spent.items():
        wall = f"{wall_s * 1000:7.1f} ms {wall_s / floor.wall_s:5.2f} x floor"
        print(f"  {name:<50} {wall}  CPU {cpu_s * 1000:7.1f} ms {cpu_s / floor.cpu_s:5.2f} x floor")
    limits = ", ".join(f"{name} {limit}" for name, limit in PROMISED.items())
    kept = all(spent[name].wall_s <= limit * floor.wall_s for name, limit in PROMISED.items())
    return promise(f"times the floor at most: {limits}", kept=kept)


def in_turns(commands: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, Spent]:
    """The median times of each, one after the other in rounds, so that noise hits all alike."""
    taken: dict[str, list[Spent]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, words in commands.items():
            spent = timed(words, environ)
            if number:  # the first round warms caches up
                taken[name].append(spent)
    return {name: Spent(*map(statistics.median, zip(*rounds, strict=True))) for name, rounds in taken.items()}
