"""Refuse to wait for the launch that this one runs in: it ends after us, so the wait would end never, or in vain.

Two things must be so: FALLOW_CLAIM, which we have inherited, names the GPU, and the process of the claim is this one
or one above it. A claim that a Python program took by itself may end before the program does, and has no
FALLOW_CLAIM. In every other case, and in doubt, a launch waits.
"""

import os
from collections.abc import Sequence

from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim
from fallow.engine.allocate.refused import gpus_in_words
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.policies.pick import Wanted

_WAY = "its GPUs are yours here, so leave `fallow` out, or begin when that launch has ended"


def refuse_to_wait_for_ourselves(world: World, gpus: Sequence[Gpu], wanted: Wanted) -> None:
    """Raise NotEnoughGpus if too few of these GPUs are left without those that the launch around us has claimed."""
    inherited = world.environ.get("FALLOW_CLAIM", "").split(",")
    above = world.proc.lineage(os.getpid()) if inherited != [""] else ()
    ours: dict[str, str] = {}
    for gpu in gpus:
        claim = claim_of(world, str(gpu.uuid)) if gpu.uuid in inherited else None
        if isinstance(claim, Claim) and claim.pid in above and not (wanted.shared and claim.shared):
            ours[gpu.label] = str(claim)
    if ours and len(gpus) - len(ours) < wanted.count:
        held = f"held by the launch that this one runs in: {len(ours)} of {len(gpus)}"
        raise NotEnoughGpus(f"need {gpus_in_words(wanted.count)}; {held}", ours, _WAY)
