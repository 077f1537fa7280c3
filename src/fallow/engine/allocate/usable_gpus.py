"""Which GPUs `fallow fill` and `fallow burn` may use: those that were named and that CUDA_VISIBLE_DEVICES allows."""

from collections.abc import Callable, Sequence

from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.selection import named_and_visible
from fallow.core.unknown import Unknown
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World


def gpus_to_fill(world: World, named: str | None, say: Callable[[str], None]) -> tuple[Gpu, ...]:
    """Return the named GPUs, or all; raise WrongUsage if none can be used."""
    gpus = world.gpu_reader.look(Depth.ALL).gpus  # with the number of each device node
    shown, hidden = named_and_visible(named, world.visible_devices, gpus)
    for gpu in shown:
        if isinstance(gpu.uuid, Unknown):
            say(f"GPU {gpu.label} is left out: its UUID is {gpu.uuid}")
    known = tuple(gpu for gpu in shown if isinstance(gpu.uuid, str))
    if not known:
        why = f": CUDA_VISIBLE_DEVICES={world.visible_devices} hides them" if hidden else ""
        raise WrongUsage(f"no GPU is left to fill{why}" if shown or hidden else "this machine shows no GPU")
    return known


def gpus_to_burn(world: World, gpus: Sequence[Gpu], named: str | None) -> tuple[Gpu, ...]:
    """Return the named GPUs, or all; raise NotEnoughGpus if one is hidden, nameless or claimed by another job."""
    shown, hidden = named_and_visible(named, world.visible_devices, gpus)
    if hidden and (named is not None or not shown):
        only = f"CUDA_VISIBLE_DEVICES={world.visible_devices}"
        refused = {gpu.label: "hidden by CUDA_VISIBLE_DEVICES" for gpu in hidden}
        raise NotEnoughGpus(f"{only} does not leave all that were asked for", refused)
    nameless = {gpu.label: str(gpu.uuid) for gpu in (*shown, *hidden) if isinstance(gpu.uuid, Unknown)}
    if nameless:
        raise NotEnoughGpus("a GPU whose UUID is not known cannot be loaded", nameless)
    ours = world.environ.get("FALLOW_CLAIM", "").split(",")  # of the launch that this runs in
    claims = {gpu.label: claim_of(world, str(gpu.uuid)) for gpu in shown if gpu.uuid not in ours}
    claimed = [f"GPU {label} is {claim}" for label, claim in claims.items() if claim is not None]
    if claimed:
        raise NotEnoughGpus(f"a GPU that another job has claimed is not loaded: {', '.join(claimed)}")
    return shown
