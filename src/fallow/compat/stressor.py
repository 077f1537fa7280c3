"""The load of the stressor "GPU Sentinel" on one GPU: `python -m fallow.compat.stressor`, started by stress.py.

It is `fallow burn --memory 88% --load warm` in chunks of 512 MiB, and prints the old tool's lines.
"""

import os
import sys
from collections.abc import Sequence

from fallow.core.errors import FallowError
from fallow.engine.burn.parent import Burned, BurnRequest, burn
from fallow.engine.machine.world import World
from fallow.workloads.work import Ask, Load

_ASK = Ask(Load.WARM, verify=False, memory_share=0.88, chunk_bytes=512 * 2**20)


def say(line: str) -> None:
    """Print one line of the log at once, since several processes write to it."""
    print(line, flush=True)


class Lines:
    """Prints what each GPU allocates, each line once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, results: Sequence[Burned]) -> None:
        for result in results:
            tally, gpu = result.tally, f"[GPU {result.gpu.label}]"
            if tally.wanted_bytes:
                self._say(f"{gpu} Attempting to allocate {_gb(tally.wanted_bytes)}")
            if tally.held_bytes:
                self._say(f"{gpu} Allocated {_gb(tally.held_bytes)} in {tally.chunks} chunks")
            if result.failed is not None:
                self._say(f"{gpu} {result.failed}")

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            say(line)


def main() -> int:
    """Load the GPU that CUDA_VISIBLE_DEVICES names until a signal ends it; return the exit code."""
    lines = Lines()
    try:
        burning = burn(World(os.environ), BurnRequest(_ASK, None, None), lines)
    except FallowError as error:
        say(f"[Stressor] {error}")
        return error.exit_code
    lines(burning.results)
    return next((result.code for result in burning.results if result.code), 0)


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


if __name__ == "__main__":
    sys.exit(main())
