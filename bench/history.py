"""What history takes on the disk, and to report on: 8 cards, one tick a second, every tick recorded.

The size is that of days that are kept in full, which are the largest.
"""

import os
import shutil
import tempfile
import time
from itertools import islice

from bench.machine import FALLOW, promise, timed
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import life

DAYS = 4
CARDS = 8
SIZE_LIMIT_MB, REPORT_LIMIT_S = 100.0, 1.0
TICK_LIMIT_US = 300.0
REPORTS = (["--by", "gpu"], ["--by", "user"], ["--by", "job"], ["--by", "day"], ["--format", "html"])
ROUNDS = 5


def main() -> bool:
    """Seven cards as people use them, one that changes at every tick and whose process changes every minute."""
    folder = tempfile.mkdtemp()
    environ = {**os.environ, "FALLOW_STATE_DIR": folder}
    try:
        ticks, recording_s, largest_mb = write(folder)
        slowest_s = 0.0
        print(f"history: {DAYS} days of {CARDS} cards, one tick a second, one card that never rests")
        print(f"  {recording_s / ticks * 1e6:.0f} µs of CPU a tick, writing and ageing included")
        print(f"  {largest_mb:.1f} MB on the disk at most")
        for words in REPORTS:
            command = [FALLOW, "report", "--since", f"{DAYS + 1}d", *words]
            taken = [timed(command, environ) for _ in range(ROUNDS)]
            wall_s, cpu_s = (
                min(times) for times in zip(*taken, strict=True)
            )  # what others did meanwhile is not ours
            slowest_s = max(slowest_s, wall_s)
            print(f"  fallow report {' '.join(words):<14} {wall_s * 1000:6.0f} ms, {cpu_s * 1000:.0f} of CPU")
    finally:
        shutil.rmtree(folder)
    tick_us = recording_s / ticks * 1e6
    kept = largest_mb <= SIZE_LIMIT_MB and slowest_s <= REPORT_LIMIT_S and tick_us <= TICK_LIMIT_US
    limits = (
        f"at most {SIZE_LIMIT_MB:.0f} MB and {TICK_LIMIT_US:.0f} µs a tick, a report within {REPORT_LIMIT_S:.0f} s"
    )
    return promise(limits, kept=kept)


def write(folder: str) -> tuple[int, float, float]:
    """All of it; the ticks, the CPU seconds of recording them, and the largest that the files were."""
    kept = HistoryWriter(folder, print)
    ticks, largest = 0, 0
    statuses = life(DAYS, CARDS, restless=1, start_s=time.time() - DAYS * 86400)
    recording_s = 0.0
    while chunk := list(islice(statuses, 900)):
        began_s = time.process_time()
        for one in chunk:
            kept.record(one)
        settled = kept.settle(60.0)
        recording_s += time.process_time() - began_s
        if not settled:
            raise RuntimeError("history was not written")
        ticks += len(chunk)
        if ticks % 21_600 == 0:
            largest = max(largest, sum(entry.stat().st_size for entry in os.scandir(folder)))
    kept.close()
    return ticks, recording_s, largest / 1e6
