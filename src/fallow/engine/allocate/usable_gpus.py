"""Which GPUs may be filled: those that somebody named, and that they may see."""

from collections.abc import Callable

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World


def fillable(world: World, listed: str | None, tell: Callable[[str], None]) -> tuple[Gpu, ...]:
    """Those of a list, or all; an outer CUDA_VISIBLE_DEVICES binds. WrongUsage if none is left."""
    snapshot = world.gpu_reader.look(Depth.LOOK)  # with the number of each device node
    seen = {gpu.label for gpu in visible(world.visible_devices, snapshot.gpus)}
    named = snapshot.gpus if listed is None else select(listed, snapshot.gpus)
    gpus = tuple(gpu for gpu in named if gpu.label in seen)
    for gpu in gpus:
        if isinstance(gpu.uuid, Unknown):
            tell(f"GPU {gpu.label} is left out: its UUID is {gpu.uuid}")
    known = tuple(gpu for gpu in gpus if isinstance(gpu.uuid, str))
    if not known:
        hidden = "" if world.visible_devices is None else f": CUDA_VISIBLE_DEVICES={world.visible_devices} hides them"
        raise WrongUsage(f"no GPU is left to fill{hidden}" if named else "this machine shows no GPU")
    return known
