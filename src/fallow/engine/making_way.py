"""Cards with a filler on them are as good as free: whoever picks or claims one is made way for.

The mark on a card says that there is a filler; which processes are the filler's is told by their keeper above them,
whose command line nobody can put above a process of somebody else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from fallow.actuators.claims import CardFile
from fallow.actuators.fill_marks import filler_on
from fallow.core.errors import NotEnoughGpus
from fallow.core.gpu import Gpu, Memory
from fallow.core.promise import NOTHING_PROMISED, Promises
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace
from fallow.engine.world import World

KEEPER = "fallow.engine.keeping"
"""The module that keeps a filler. Its name in a command line is how a filler's tree is known."""
_LEAVES_WITHIN_S = 60.0
_LOOK_AGAIN_S, _LONGEST_NAP_S = 0.005, 0.1


def without_fillers(world: World, gpus: Iterable[Gpu], promised: Mapping[str, Promises]) -> tuple[Gpu, ...]:
    """The GPUs as they will be once their fillers have made way."""
    return tuple(
        _without_filler(world, gpu) if promised.get(str(gpu.uuid), NOTHING_PROMISED).filler is not None else gpu
        for gpu in gpus
    )


def wait_until_clear(world: World, gpus: Iterable[Gpu], tell: Callable[[str], None]) -> None:
    """Until no filler is left on GPUs that we have claimed, which is what makes them leave; else NotEnoughGpus."""
    until_s = world.clock.monotonic_s() + _LEAVES_WITHIN_S
    for gpu in gpus:
        card = CardFile(world.folder.open(str(gpu.uuid)))
        try:
            for nap_s in _naps(world, until_s):
                if filler_on(card) is None:
                    break
                if nap_s >= _LONGEST_NAP_S:
                    tell(f"waiting for the filler on GPU {gpu.label} to leave")
                world.clock.sleep(nap_s)
            filler = filler_on(card)
        finally:
            card.close()
        if filler is not None:
            why = f"its filler has not left within {_LEAVES_WITHIN_S:.0f} s: {filler}"
            raise NotEnoughGpus(f"GPU {gpu.label} is not to be had", {gpu.label: why})


def _naps(world: World, until_s: float) -> Iterator[float]:
    nap_s = _LOOK_AGAIN_S
    while world.clock.monotonic_s() < until_s:
        yield nap_s
        nap_s = min(_LONGEST_NAP_S, 1.1 * nap_s)


def _without_filler(world: World, gpu: Gpu) -> Gpu:
    if isinstance(gpu.holders, Unknown) or isinstance(gpu.memory, Unknown):
        return gpu
    fillers = [holder for holder in gpu.holders if _is_kept(world, holder.pid)]
    others = tuple(holder for holder in gpu.holders if holder not in fillers)
    if others:
        return gpu  # it will be on its way out, but these will not
    memory = gpu.memory
    used = max(0, memory.used_bytes - sum(known(holder.memory_bytes, 0) for holder in fillers))
    left = Memory(memory.total_bytes, used, memory.free_bytes + memory.used_bytes - used, memory.floor_bytes)
    return replace(gpu, holders=(), memory=left, utilization=0.0, memory_utilization=0.0)


def _is_kept(world: World, pid: int) -> bool:
    def keeps(above: int) -> bool:
        command = world.proc.command(above)
        return isinstance(command, str) and KEEPER in command.split()

    return any(keeps(above) for above in world.proc.ancestors(pid))
