"""What it costs to fill 8 cards while nothing happens: fallow itself and the keepers of the fillers."""

import pathlib
import subprocess
import time

from bench.machine import CARDS, FALLOW, WATCHED_S, machine, promise, share_of_a_core

CPU_LIMIT = 0.003


def main() -> bool:
    """Measure, print, and say whether the promise was kept."""
    words = [FALLOW, "fill", "--users", "ignore", "--idle-for", "0", "--", "sleep", "600"]
    with machine() as here:
        here.give_nodes()
        with subprocess.Popen(words, env=here.environ, stderr=subprocess.PIPE, text=True) as filler:
            assert filler.stderr is not None
            for _ in range(CARDS):
                next(line for line in filler.stderr if "filling it" in line)
            time.sleep(3)  # starting up is not what is measured
            below = pathlib.Path(f"/proc/{filler.pid}/task/{filler.pid}/children").read_text().split()
            pids = [filler.pid, *map(int, below)]
            share = share_of_a_core(pids)
            filler.terminate()
    print(f"filling 8 cards while nothing happens, for {WATCHED_S} s, {len(pids) - 1} keepers among it")
    print(f"  {share:.3%} of one core")
    return promise(f"at most {CPU_LIMIT:.1%}", kept=share <= CPU_LIMIT)
