"""Find processes that hold a GPU although the driver does not list them, by who has its device node open.

What a crashed job left behind, such as workers that were forked from it, keeps the memory of a GPU and is in no list.
An open alone proves nothing: monitors open every node, and CUDA opens those of all GPUs that it may use. So a process
is taken for a holder only if all of this is so:

    the GPU has memory in use that no listed process accounts for
    the process has called cuInit, which shows in how often it has the node open
    it has the node in its memory, as each CUDA context has: open files can be handed to a program of somebody else,
    such as a message bus, and a mapping cannot
    it is listed on no GPU, and neither below nor above a process that is
    it is no monitor, by a name that it cannot have given itself

/dev/nvidiactl and /dev/nvidia-uvm name no GPU. Nodes of a split card do not tell its instances apart, and simulated
GPUs have none. If it is unknown who is listed on any of the GPUs, nobody is found.
"""

from collections.abc import Collection, Sequence
from itertools import islice

from fallow.core.activity import unseen_memory_bytes
from fallow.core.gpu import Gpu, Holder
from fallow.core.ports import Depth
from fallow.core.process import DEEPEST
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.fill.newcomers import HAS_BEGUN_CUDA, MONITORS
from fallow.engine.machine.world import World
from fallow.readers.proc_files import mapped_files

_NOT_LISTED = Unknown("the driver does not list it")


def has_unseen_memory(gpu: Gpu) -> bool:
    """Return whether it is known that memory of the GPU is in use by nobody who is listed."""
    unseen = unseen_memory_bytes(gpu)
    return not isinstance(unseen, Unknown) and unseen > 0


class HiddenHolders:
    """Finds them once, and then only looks whether they still have the device nodes open."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes: dict[str, str] = {}
        """The device nodes of GPUs, by UUID."""
        self._found: dict[int, frozenset[str]] = {}
        """The nodes that each process has open, by pid."""

    def find(self, gpus: Sequence[Gpu]) -> None:
        """Search all processes, if there is memory that nobody accounts for; `gpus` are all of the machine."""
        self._found = {}
        if self._world.simulated or not any(has_unseen_memory(gpu) for gpu in gpus):
            return
        now = self._world.gpu_reader.look(Depth.ALL).gpus  # which has the numbers of the nodes, too
        self._nodes = {
            str(gpu.uuid): f"{self._world.device_folder}/nvidia{gpu.minor}"
            for gpu in now
            if gpu.mig is None and not isinstance(gpu.minor, Unknown) and not isinstance(gpu.uuid, Unknown)
        }
        wanted = {
            self._nodes[str(gpu.uuid)] for gpu in now if has_unseen_memory(gpu) and str(gpu.uuid) in self._nodes
        }
        if not wanted or any(isinstance(gpu.holders, Unknown) for gpu in now):
            return
        proc = self._world.proc
        listed = {holder.pid for gpu in now if not isinstance(gpu.holders, Unknown) for holder in gpu.holders}
        kin = listed.union(*(islice(proc.ancestors(pid), DEEPEST) for pid in listed))
        for pid in proc.pids():
            opened = frozenset[str]() if pid in kin else self._opened(pid, wanted)
            opened = opened and mapped_files(self._world.proc.root, pid, opened)
            if (
                opened
                and listed.isdisjoint(islice(proc.ancestors(pid), DEEPEST))
                and MONITORS.isdisjoint(proc.trusted_names(pid))
            ):
                self._found[pid] = opened

    def added_to(self, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
        """Return the GPUs with those found that have their nodes open now."""
        now = {pid: self._opened(pid, nodes) for pid, nodes in self._found.items()}
        return tuple(
            self._with(gpu, {pid for pid, nodes in now.items() if self._nodes.get(str(gpu.uuid)) in nodes})
            for gpu in gpus
        )

    def nodes_of(self, pids: Collection[int]) -> tuple[str, ...]:
        """Return the nodes by which these processes were found."""
        return tuple(sorted({node for pid in pids for node in self._found.get(pid, ())}))

    def _opened(self, pid: int, nodes: Collection[str]) -> frozenset[str]:
        """Return those of the nodes that a process has open as often as CUDA does."""
        counts = self._world.proc.open_counts(pid, nodes)
        return frozenset(node for node, count in counts.items() if count >= HAS_BEGUN_CUDA)

    @staticmethod
    def _with(gpu: Gpu, pids: set[int]) -> Gpu:
        if isinstance(gpu.holders, Unknown) or not pids:
            return gpu
        more = pids.difference(holder.pid for holder in gpu.holders)
        return replace(gpu, holders=(*gpu.holders, *(Holder(pid, _NOT_LISTED) for pid in sorted(more))))
