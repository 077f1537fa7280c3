"""Find the process that is about to work on a GPU, after an open of its device node.

An open is no proof: monitors open the node too, up to three times. A process that has four descriptors on it has
called cuInit, 5 ms after its first open and more than 100 ms before its first allocation. So after an open the
descriptors of all processes are counted a few times, and in between those of the processes that have the node open.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from fallow.core.reasons import Reason
from fallow.policies.signs import process_in_words
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
_EVERYBODY_AFTER_S = (0.0, 0.002, 0.004, 0.007, 0.012, 0.025, 0.05, 0.1, 0.2)
_CLOSELY_EVERY_S = 0.001
_CLOSELY_FOR_S = 0.5
"""Longer than NVML takes to list a process that has called cuInit: 40 to 260 ms."""


class Newcomers:
    """Counts which processes have the device nodes of some GPUs open, and how often."""

    def __init__(
        self,
        proc: Proc,
        nodes: Mapping[str, str],
        is_ours: Callable[[int], bool],
        ignored: Collection[str],
        *,
        eager: bool,
    ) -> None:
        """`nodes`: the path of each GPU's device node, by UUID."""
        self._proc = proc
        self._uuids = {path: uuid for uuid, path in nodes.items()}
        self._is_ours = is_ours
        self._ignored = frozenset(ignored) | MONITORS
        self._at_least = 1 if eager else HAS_BEGUN_CUDA
        self._known: dict[tuple[int, int], int] = {}
        self._near: set[int] = set()
        self._familiar: set[int] = set()
        self._opened_s: float | None = None
        self._everybody_due: list[float] = []

    def remember(self) -> None:
        """Take processes that have a node open now for known: they are newcomers only if they open it again."""
        self._familiar = set(self._proc.pids()) - {os.getpid()}
        for pid in self._familiar:
            self._count(pid)

    def note_open(self, now_s: float) -> None:
        """Start the search: a node was opened."""
        self._opened_s = now_s
        self._everybody_due = [now_s + after_s for after_s in _EVERYBODY_AFTER_S]

    def stop(self) -> None:
        """End the search: further looks would only delay the newcomer."""
        self._opened_s = None
        self._near.clear()

    def closely(self, now_s: float) -> bool:
        """Return whether a search is under way."""
        return self._opened_s is not None and now_s - self._opened_s < _CLOSELY_FOR_S

    def next_look_s(self, now_s: float) -> float | None:
        """Return when to look again, or None if there is no reason to."""
        return now_s + _CLOSELY_EVERY_S if self.closely(now_s) else None

    def look(self, now_s: float) -> dict[str, Reason]:
        """Return by UUID the GPUs that a process is about to work on, each with that process."""
        if not self.closely(now_s):
            self._near.clear()
            return {}
        found = self._found(set(self._near))
        if found or not self._everybody_due or self._everybody_due[0] > now_s:
            return found
        self._everybody_due = [due_s for due_s in self._everybody_due if due_s > now_s]
        # New processes are counted first: older ones may have thousands of files open.
        there = set(self._proc.pids()) - {os.getpid()}
        new, self._familiar = there - self._familiar, there
        self._known = {identity: most for identity, most in self._known.items() if identity[0] in there}
        return self._found(new) or self._found(there - new)

    def _found(self, pids: Iterable[int]) -> dict[str, Reason]:
        return {self._uuids[path]: self._opened(pid, path) for pid in pids for path in self._count(pid)}

    def _count(self, pid: int) -> list[str]:
        """Return the nodes that this process has open as often as CUDA does, and more often than when last seen."""
        counts = self._proc.open_counts(pid, self._uuids.keys())
        stat = self._proc.stat(pid) if counts else None
        if stat is None:
            self._near.discard(pid)
            return []
        if self._is_ours(pid) or not self._ignored.isdisjoint(self._proc.trusted_names(pid)):
            return []
        self._near.add(pid)
        identity, most = (pid, stat.birth), max(counts.values())
        before = self._known.get(identity, 0)
        self._known[identity] = max(before, most)
        return [path for path, count in counts.items() if count >= self._at_least and most > before]

    def _opened(self, pid: int, path: str) -> Reason:
        process = process_in_words(pid, self._proc.user(pid), self._proc.command(pid))
        return Reason("opened", process=process, pid=pid, path=path)
