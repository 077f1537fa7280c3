"""Find processes that hold a GPU although the driver does not list them, by who has its device node open.

What a crashed job left behind, such as workers that were forked from it, keeps the memory of a GPU and is in no list.
An open alone proves nothing: monitors open every node, and CUDA opens those of all GPUs that it may use. So a process
is taken for a holder only if all of this is so:

    the GPU has memory in use that no listed process accounts for
    the process has called cuInit, which shows in how often it has the node open
    it is listed on no GPU, and neither below nor above a process that is
    it is not named like a monitor

/dev/nvidiactl and /dev/nvidia-uvm name no GPU. Nodes of a split card do not tell its instances apart, and simulated
GPUs have none. If it is unknown who is listed on any of the GPUs, nobody is found.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from fallow.core.activity import unseen_memory_bytes
from fallow.core.gpu import Gpu, Holder
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.newcomers import HAS_BEGUN_CUDA, MONITORS
from fallow.engine.machine.world import World

_NOT_LISTED = Unknown("the driver does not list it")
Hidden = Mapping[int, frozenset[str]]
"""By pid, the device nodes that it has open."""


def node_of(world: World, gpu: Gpu) -> str | None:
    """Return the device node of a GPU; None for one that has none of its own."""
    if world.simulated or gpu.mig is not None or isinstance(gpu.minor, Unknown):
        return None
    return f"{world.device_folder}/nvidia{gpu.minor}"


def has_unseen_memory(gpu: Gpu) -> bool:
    """Return whether it is known that memory of the GPU is in use by nobody who is listed."""
    unseen = unseen_memory_bytes(gpu)
    return not isinstance(unseen, Unknown) and unseen > 0


def find_hidden(world: World, gpus: Sequence[Gpu]) -> Hidden:
    """Return the processes that hold one of these GPUs and are listed on none."""
    nodes = {node for gpu in gpus if has_unseen_memory(gpu) and (node := node_of(world, gpu)) is not None}
    if not nodes or any(isinstance(gpu.holders, Unknown) for gpu in gpus):
        return {}
    proc = world.proc
    listed = {holder.pid for gpu in gpus if not isinstance(gpu.holders, Unknown) for holder in gpu.holders}
    kin = listed.union(*(proc.ancestors(pid) for pid in listed))
    found: dict[int, frozenset[str]] = {}
    for pid in proc.pids():
        if pid in kin:
            continue
        opened = opened_by(world, pid, nodes)
        if opened and listed.isdisjoint(proc.ancestors(pid)) and MONITORS.isdisjoint(proc.called(pid)):
            found[pid] = opened
    return found


def opened_by(world: World, pid: int, nodes: set[str] | frozenset[str]) -> frozenset[str]:
    """Return those of the nodes that a process has open as often as CUDA does."""
    counts = world.proc.open_counts(pid, nodes)
    return frozenset(node for node, count in counts.items() if count >= HAS_BEGUN_CUDA)


def with_hidden(world: World, gpus: Sequence[Gpu], hidden: Hidden) -> tuple[Gpu, ...]:
    """Return the GPUs with these holders, too."""
    return tuple(_with_hidden(gpu, node_of(world, gpu), hidden) for gpu in gpus)


def still_hidden(world: World, hidden: Hidden) -> Hidden:
    """Return those of them that have the nodes open now."""
    now = {pid: opened_by(world, pid, nodes) for pid, nodes in hidden.items()}
    return {pid: nodes for pid, nodes in now.items() if nodes}


def nodes_opened(hidden: Hidden, pids: Sequence[int]) -> tuple[str, ...]:
    """Return the nodes that these processes have open, for people."""
    return tuple(sorted(set(chain.from_iterable(hidden.get(pid, ()) for pid in pids))))


def _with_hidden(gpu: Gpu, node: str | None, hidden: Hidden) -> Gpu:
    if isinstance(gpu.holders, Unknown) or node is None:
        return gpu
    known = {holder.pid for holder in gpu.holders}
    more = [Holder(pid, _NOT_LISTED) for pid, nodes in hidden.items() if node in nodes and pid not in known]
    return replace(gpu, holders=(*gpu.holders, *more)) if more else gpu
