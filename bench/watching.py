"""What it costs to watch a job on 8 cards, one tick a second."""

import subprocess
import time

from bench.machine import FALLOW, WATCHED_S, machine, promise, resident_mb, share_of_a_core

CPU_LIMIT, MEMORY_LIMIT_MB = 0.003, 40.0  # measured: 0.17 to 0.28 %, and 22 MB


def main() -> bool:
    """Measure, print, and say whether the promise was kept."""
    job = ("sh", "-c", "echo $$; exec sleep 600")
    words = [FALLOW, "run", "-n", "8", "--idle-timeout", "1h", "--", *job]
    with machine() as here, subprocess.Popen(words, env=here.environ, stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None
        here.occupy(int(watcher.stdout.readline()))
        time.sleep(3)  # starting up is not what is measured
        share, memory_mb = share_of_a_core([watcher.pid]), resident_mb(watcher.pid)
        watcher.terminate()
    print(f"watching a job on 8 cards, one tick a second, for {WATCHED_S} s")
    print(f"  {share:.3%} of one core, {memory_mb:.1f} MB resident")
    kept = share <= CPU_LIMIT and memory_mb <= MEMORY_LIMIT_MB
    return promise(f"at most {CPU_LIMIT:.1%} and {MEMORY_LIMIT_MB:.0f} MB", kept=kept)
