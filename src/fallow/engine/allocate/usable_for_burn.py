"""Which cards `fallow burn` may load: those that were named, that we may see, and that nobody has claimed."""

from collections.abc import Sequence

from fallow.actuators.claims.claims import CardFile
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.engine.machine.claim_holders import claim_on
from fallow.engine.machine.world import World


def chosen(world: World, gpus: Sequence[Gpu], named: str | None) -> tuple[Gpu, ...]:
    """The cards to load; NotEnoughGpus if not all that were asked for are ours to load."""
    listed = tuple(gpus) if named is None else select(named, gpus)
    seen = {gpu.label for gpu in visible(world.visible_devices, gpus)}
    hidden = {gpu.label: "hidden by CUDA_VISIBLE_DEVICES" for gpu in listed if gpu.label not in seen}
    if hidden and (named is not None or len(hidden) == len(listed)):
        only = f"CUDA_VISIBLE_DEVICES={world.visible_devices}"
        raise NotEnoughGpus(f"{only} does not leave all that were asked for", hidden)
    nameless = {gpu.label: str(gpu.uuid) for gpu in listed if isinstance(gpu.uuid, Unknown)}
    if nameless:
        raise NotEnoughGpus("a card whose UUID is not known cannot be loaded", nameless)
    cards = tuple(gpu for gpu in listed if gpu.label in seen)
    claims = {gpu.label: claim for gpu in cards if (claim := _claim_of_others(world, str(gpu.uuid))) is not None}
    if claims:
        who = ", ".join(f"GPU {label} is {claim}" for label, claim in claims.items())
        raise NotEnoughGpus(f"a card that somebody else has claimed is not loaded: {who}")
    return cards


def _claim_of_others(world: World, uuid: str) -> Claim | None:
    """Who has claimed it, unless it is the launch that we run in, which says so in FALLOW_CLAIM."""
    if uuid in world.environ.get("FALLOW_CLAIM", "").split(","):
        return None
    fd = world.folder.peek(uuid)
    if fd is None:
        return None
    card = CardFile(fd)
    try:
        return claim_on(world, card)
    finally:
        card.close()
