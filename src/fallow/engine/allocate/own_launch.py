"""Refuse to wait for the launch that this one runs in: it ends after us, so the wait would end never, or in vain.

Two things must be so: FALLOW_CLAIM, which we have inherited, names the GPU, and a process that the kernel shows with
the claim open is this one or one above it. A claim that a Python program took by itself may end before the program
does, and has no FALLOW_CLAIM. In every other case, and in doubt, a launch waits.
"""

import os
from collections.abc import Sequence

from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.policies.pick import Wanted

_WAY = "its GPUs are yours here, so leave `fallow` out, or begin when that launch has ended"


def refuse_to_wait_for_ourselves(world: World, gpus: Sequence[Gpu], wanted: Wanted) -> None:
    """Raise NotEnoughGpus if too few of these GPUs are left without those that the launch around us has claimed."""
    inherited = world.environ.get("FALLOW_CLAIM", "").split(",")
    around = [gpu for gpu in gpus if gpu.uuid in inherited]
    if not around or len(gpus) - len(around) >= wanted.count:
        return
    above = world.proc.lineage(os.getpid())
    ours: dict[str, Claim] = {}
    for gpu in around:
        claim = claim_of(world, str(gpu.uuid))
        if isinstance(claim, Claim) and claim.pid in above and not (wanted.shared and claim.shared):
            ours[gpu.label] = claim
    if not ours or len(gpus) - len(ours) >= wanted.count:
        return
    need = "1 GPU" if wanted.count == 1 else f"{wanted.count} GPUs"
    some = f"{len(ours)} of {len(gpus)} {'is' if len(ours) == 1 else 'are'}"
    which = "it is" if len(gpus) == 1 else "all are" if len(ours) == len(gpus) else some
    raise NotEnoughGpus(
        f"need {need}, and {which} held by the launch that this one runs in",
        {label: str(claim) for label, claim in ours.items()},
        _WAY,
    )
