"""The stressor "GPU Sentinel": a light load on every free GPU, which leaves as soon as somebody uses the GPU.

The loop of `fallow fill` runs `python -m fallow.compat.stress` on each GPU, which is `fallow burn --memory 88% --load
warm` in chunks of 512 MiB. Both print the old tool's lines.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence

from fallow.core.arguments import ArgumentParser
from fallow.core.errors import FallowError
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.burn.parent import Burned, BurnRequest, burn
from fallow.engine.fill.filler import FillerSpec
from fallow.engine.fill.loop import fill_loop
from fallow.engine.history.run import open_run
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from fallow.workloads.work import Ask, Load

_LOAD = Ask(Load.WARM, verify=False, memory_share=0.88, chunk_bytes=512 * 2**20)
_STRESSOR = FillerSpec(
    (sys.executable, "-P", "-m", "fallow.compat.stress"),
    FillRules(idle_for_s=1.0),
    PresenceRules(mind_users=False),
    name="stressor",
)
_ITS_WORDS = {
    "filling it": "Free. Launching stressor.",
    "left alone": "In use. No stressor running.",
    "giving it back": "In use by other processes. Killing stressor.",
}
"""The line of the old tool for the beginning of a sentence of `fallow fill`."""


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Load free GPUs until a person ends it."""
    what = "Load every visible GPU that nobody uses, and leave it when somebody comes. It has no options."
    ArgumentParser("gpu_stress", description=what).parse_args(words)
    gpus = gpus_to_fill(world, None, tell)
    with open_run(world, tell) as run:
        loop = fill_loop(run, [(_STRESSOR, (gpu,)) for gpu in gpus], _say_in_its_words)
        _say("[Supervisor] Watching GPUs...")
        loop.run()
    return 0


def _say_in_its_words(sentence: str) -> None:
    """Print the line of the old tool for a sentence of `fallow fill`, followed by the reason if a GPU is in use."""
    gpu, _, said = sentence.removeprefix("GPU ").partition(": ")
    what, _, reason = said.partition(": ")
    _say(f"[GPU {gpu}] {_ITS_WORDS.get(what) or said[:1].upper() + said[1:]}")
    if what in ("left alone", "giving it back"):
        _say(f"[GPU {gpu}] Because {reason}")


def load() -> int:
    """Load the GPU that CUDA_VISIBLE_DEVICES names until a signal ends it; return the exit code."""
    said: set[str] = set()

    def show(results: Sequence[Burned]) -> None:
        for line in (line for result in results for line in _lines(result)):
            if line not in said:
                said.add(line)
                _say(line)

    try:
        results = burn(World(os.environ), BurnRequest(_LOAD, None, None), show)
    except FallowError as error:
        _say(f"[Stressor] {error}")
        return error.exit_code
    show(results)
    return next((result.code for result in results if result.code), 0)


def _lines(result: Burned) -> Iterator[str]:
    tally, gpu = result.tally, f"[GPU {result.gpu.label}]"
    if tally.wanted_bytes:
        yield f"{gpu} Attempting to allocate {tally.wanted_bytes / 1e9:.2f} GB"
    if tally.held_bytes:
        yield f"{gpu} Allocated {tally.held_bytes / 1e9:.2f} GB in {tally.chunks} chunks"
    if result.failed is not None:
        yield f"{gpu} {result.failed}"


def _say(line: str) -> None:
    print(line, flush=True)  # several processes write to the same log


if __name__ == "__main__":
    sys.exit(load())
