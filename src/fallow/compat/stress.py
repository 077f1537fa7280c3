"""The stressor "GPU Sentinel": a light load on every free GPU, which leaves as soon as somebody uses the GPU.

The loop of `fallow fill` runs it, with stressor.py as the filler. This file has the lines that the old tool prints.
"""

import sys
from collections.abc import Callable, Sequence

from fallow.compat.stressor import say
from fallow.core.arguments import ArgumentParser
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.fill.compose import fill_loop
from fallow.engine.fill.start import FillerSpec
from fallow.engine.history.run import open_run
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from fallow.workloads.work import SIMULATED_SCALE

_FREE_FOR_S = 1.0
_STRESSOR = FillerSpec(
    (sys.executable, "-P", "-m", "fallow.compat.stressor"),
    FillRules(idle_for_s=_FREE_FOR_S),
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
    ArgumentParser(
        "gpu_stress",
        description="Load every visible GPU that nobody uses, and leave it when somebody comes. It has no options.",
    ).parse_args(words)
    gpus = gpus_to_fill(world, None, tell)
    with open_run(world, tell) as run:
        loop = fill_loop(run, [(_STRESSOR, (gpu,)) for gpu in gpus], _say_in_its_words)
        if world.simulated:
            tell(f"the GPUs are simulated: 1/{SIMULATED_SCALE} of the memory is taken")
        say("[Supervisor] Watching GPUs...")
        loop.run()
    return 0


def _say_in_its_words(sentence: str) -> None:
    """Print the line of the old tool for a sentence of `fallow fill`, followed by the reason if a GPU is in use."""
    gpu, _, said = sentence.removeprefix("GPU ").partition(": ")
    what, _, reason = said.partition(": ")
    say(f"[GPU {gpu}] {_ITS_WORDS.get(what) or said[:1].upper() + said[1:]}")
    if what in ("left alone", "giving it back"):
        say(f"[GPU {gpu}] Because {reason}")
