"""The stressor "GPU Sentinel": a light load on every free GPU, which leaves as soon as somebody uses the GPU.

The loop of `fallow fill` runs it, with stressor.py as the filler. This file has the lines that the old tool prints.
"""

import sys
from collections.abc import Callable, Sequence
from typing import assert_never

from fallow.compat.stressor import say
from fallow.core.arguments import ArgumentParser
from fallow.core.fillers import News
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.fill.compose import fill_loop
from fallow.engine.fill.slot import FillerSlot
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


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Load free GPUs until a person ends it."""
    ArgumentParser(
        "gpu_stress",
        description="Load every visible GPU that nobody uses, and leave it when somebody comes. It has no options.",
    ).parse_args(words)
    gpus = gpus_to_fill(world, None, tell)
    with open_run(world, tell) as run:
        loop = fill_loop(run, [(_STRESSOR, (gpu,)) for gpu in gpus], _in_its_words, say)
        if world.simulated:
            tell(f"the GPUs are simulated: 1/{SIMULATED_SCALE} of the memory is taken")
        say("[Supervisor] Watching GPUs...")
        loop.run()
    return 0


def _in_its_words(slot: FillerSlot, news: News, detail: str) -> str:
    """Return the line that the old tool prints, followed by the reason if a GPU is given up."""
    gpu = f"[GPU {slot.gpus[0].label}]"
    match news:
        case News.FILLING:
            return f"{gpu} Free. Launching stressor."
        case News.LEFT_ALONE:
            return f"{gpu} In use. No stressor running.\n{gpu} Because {detail}"
        case News.GIVING_BACK if slot.state.blind_since_s is None:
            return f"{gpu} In use by other processes. Killing stressor.\n{gpu} Because {detail}"
        case News.GIVING_BACK:
            return f"{gpu} Nobody can tell whether it is in use. Killing stressor.\n{gpu} Because {detail}"
        case News.RESUMING:
            return f"{gpu} Resuming the stressor: {detail}"
        case News.ENDED:
            return f"{gpu} The stressor {detail}"
        case News.GIVEN_BACK:
            return f"{gpu} Given back after {detail}"
        case News.NOTE:
            return f"{gpu} {detail[:1].upper()}{detail[1:]}"
    assert_never(news)
