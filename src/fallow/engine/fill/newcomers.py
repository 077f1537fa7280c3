"""Find the process that is about to work on a GPU, after an open of its device node.

An open is no proof: monitors open the node too, up to three times. A process that has four descriptors on it has
called cuInit, 5 ms after its first open and more than 100 ms before its first allocation. So after an open the
descriptors are counted a few times: first those of the processes that have the node open, which takes next to no
time, and then those of all. Who is not found so, as a process of another user where fallow is not root, is in the
driver's list 40 to 260 ms after the open.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from fallow.core.gpu import Gpu
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.policies.signs import process_in_words
from fallow.readers.file_events import FileEvents
from fallow.readers.proc import Proc

MONITORS = frozenset(
    (
        *("nvidia-smi", "nvidia-persistenced", "nvidia-powerd", "nvidia-settings", "nv-hostengine", "dcgmi"),
        *("dcgm-exporter", "nvidia_gpu_exporter", "nvitop", "nvitop-exporter", "nvtop", "gpustat", "gpuview"),
        *("btop", "glances", "netdata", "telegraf", "nvidia-device-plugin", "gpu-feature-discovery"),
    )
)
HAS_BEGUN_CUDA = 4
"""So many descriptors on the node has a process that has called cuInit; monitors have fewer."""
_LOOKS_AFTER_S = (0.0, 0.002, 0.004, 0.007, 0.012, 0.025, 0.05, 0.1, 0.25)
_REST = 4
"""After all processes were counted, they are not counted again for so many times as long as that took."""


@value
class Newcomer:
    """A process that has opened the device node of a GPU further than when it was last seen."""

    uuid: str
    opens: int
    """How many descriptors on the node it has."""
    names: frozenset[str]
    """Names that another user cannot have given it."""
    reason: Reason


class Search:
    """Counts which processes have the device nodes of GPUs open, and how often."""

    def __init__(self, proc: Proc, is_ours: Callable[[int], bool], monotonic_s: Callable[[], float]) -> None:
        self._proc = proc
        self._is_ours = is_ours
        self._monotonic_s = monotonic_s
        self._uuids: dict[str, str] = {}
        self._known: dict[tuple[int, int], dict[str, int]] = {}
        self._due: list[float] = []
        self._rests_until_s = 0.0

    def watch(self, nodes: Mapping[str, str]) -> None:
        """Search for those who open these nodes, by UUID. Who has one open now counts once they open it again."""
        self._uuids = {path: uuid for uuid, path in nodes.items()}
        self._count(self._proc.pids())

    def begin(self, now_s: float) -> None:
        """Begin to search: a node was opened."""
        self._due = [now_s + after_s for after_s in _LOOKS_AFTER_S]

    def stop(self) -> None:
        """End the search: further looks would only delay the newcomer."""
        self._due = []

    @property
    def due_s(self) -> float | None:
        """Return when to look again, or None if no search is under way."""
        return self._due[0] if self._due else None

    def look(self, now_s: float) -> list[Newcomer]:
        """Return who has opened a node since the last look, if a look is due."""
        if not self._due or now_s < self._due[0]:
            return []
        self._due = [each for each in self._due if each > now_s]
        found = self._count([pid for pid, _ in self._known])
        began_s = self._monotonic_s()
        if found or began_s < self._rests_until_s:
            return found
        found = self._count(self._proc.pids())
        ended_s = self._monotonic_s()
        self._rests_until_s = ended_s + _REST * (ended_s - began_s)
        return found

    def _count(self, pids: Iterable[int]) -> list[Newcomer]:
        found: list[Newcomer] = []
        known: dict[tuple[int, int], dict[str, int]] = {}
        # A newcomer mostly has the highest pid: counted last, it has had the most time to open the node.
        for pid in sorted(pids):
            counts = self._proc.open_counts(pid, self._uuids.keys())
            stat = self._proc.stat(pid) if counts and pid != os.getpid() else None
            if stat is None or self._is_ours(pid):
                continue
            identity = pid, stat.birth
            before = self._known.get(identity, {})
            known[identity] = {path: max(count, before.get(path, 0)) for path, count in counts.items()}
            found += [self._found(pid, path, count) for path, count in counts.items() if count > before.get(path, 0)]
        self._known = known
        return found

    def _found(self, pid: int, path: str, count: int) -> Newcomer:
        process = process_in_words(pid, self._proc.user(pid), self._proc.command(pid))
        reason = Reason("opened", process=process, pid=pid, path=path)
        return Newcomer(self._uuids[path], count, frozenset(self._proc.trusted_names(pid)), reason)


class DeviceNodes:
    """Watches the device nodes of GPUs."""

    def __init__(self, world: World, say: Callable[[str], None], events: FileEvents) -> None:
        """`events` reports the opens, each under the UUID of the GPU."""
        self.paths: dict[str, str] = {}
        """The nodes that are watched, by UUID."""
        self._unwatched: set[str] = set()
        self._world = world
        self._say = say
        self._events = events

    def watch(self, gpus: Sequence[Gpu]) -> bool:
        """Watch these GPUs too; return whether any of them was not watched before."""
        new = {str(gpu.uuid): gpu for gpu in gpus if str(gpu.uuid) not in self.paths.keys() | self._unwatched}
        labels: dict[str, list[str]] = {}
        for uuid, gpu in new.items():
            path = f"{self._world.device_folder}/nvidia{gpu.minor}"
            why = self._why_not(gpu) or self._events.watch_opens(uuid, path)
            if why is None:
                self.paths[uuid] = path
            else:
                self._unwatched.add(uuid)
                labels.setdefault(why, []).append(gpu.label)
        for why, missed in labels.items():
            if not self._world.simulated:  # where there are no nodes, nothing is missing
                self._say(f"cannot watch opens of GPU {','.join(missed)} ({why}); polling instead")
        return not self.paths.keys().isdisjoint(new)

    def cannot_watch(self, uuids: Iterable[str]) -> bool:
        """Return whether the node of any of these GPUs is not watched."""
        return not self._unwatched.isdisjoint(uuids)

    def _why_not(self, gpu: Gpu) -> str | None:
        if self._world.simulated:
            return "simulated ones have no device node"
        if gpu.mig is not None:
            return "an open does not tell one MIG instance from another"
        return f"its device node is {gpu.minor}" if isinstance(gpu.minor, Unknown) else None
