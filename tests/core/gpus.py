"""GPUs for tests, idle unless told otherwise."""

from typing import Any

from fallow.core.gpu import Gpu, Holder, Memory, Recent
from fallow.core.unknown import Unknown
from fallow.core.value import replace

GIB = 2**30
NOT_SUPPORTED = Unknown("the GPU does not support it")


def idle(index: int = 0, **changes: Any) -> Gpu:
    """A card that nobody holds."""
    card = Gpu(
        index=index,
        uuid=f"GPU-{index:08x}-0000-4000-8000-000000000000",
        name="NVIDIA H100 80GB HBM3",
        utilization=0.0,
        memory_utilization=0.0,
        memory=Memory(80 * GIB, 4 * 2**20, 80 * GIB - 4 * 2**20, 64 * 2**20),
        holders=(),
        temperature_c=30,
        recent=Recent(14.0, 0.0, 0.0),
    )
    return replace(card, **changes)


def held(index: int = 0, pid: int = 100, memory_gib: int = 2, **changes: Any) -> Gpu:
    """A card that one process holds, doing nothing."""
    used = memory_gib * GIB
    memory = Memory(80 * GIB, used, 80 * GIB - used, 64 * 2**20)
    return replace(idle(index), **{"memory": memory, "holders": (Holder(pid, used, utilization=0.0),), **changes})
