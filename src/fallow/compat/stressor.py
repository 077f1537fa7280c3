"""What the stressor "GPU Sentinel" runs on one GPU: `python -m fallow.compat.stressor`, started by stress.py.

It is `fallow burn --memory 88% --load warm`, in chunks of 512 MiB, and says what it takes in the old tool's lines.
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
    """One line of its log; several processes write it, so none is kept back."""
    print(line, flush=True)


class Lines:
    """What is said of each card while memory is taken, each thing once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, cards: Sequence[Burned]) -> None:
        for card in cards:
            tally, gpu = card.tally, f"[GPU {card.gpu.label}]"
            if tally.wanted_bytes:
                self._say(f"{gpu} Attempting to allocate {_gb(tally.wanted_bytes)}")
            if tally.held_bytes:
                self._say(f"{gpu} Allocated {_gb(tally.held_bytes)} in {tally.chunks} chunks")
            if card.failed is not None:
                self._say(f"{gpu} {card.failed}")

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            say(line)


def main() -> int:
    """Load the card that CUDA_VISIBLE_DEVICES names until somebody asks us to leave; the exit code."""
    lines = Lines()
    try:
        burning = burn(World(os.environ), BurnRequest(_ASK, None, None), lines)
    except FallowError as error:
        say(f"[Stressor] {error}")
        return error.exit_code
    lines(burning.cards)
    return next((card.code for card in burning.cards if card.code), 0)


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


if __name__ == "__main__":
    sys.exit(main())
