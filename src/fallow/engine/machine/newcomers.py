"""Find the process that is about to work on a GPU, after an open of its device node.

An open is no proof: monitors open the node too, up to three times. A process that has four descriptors on it has
called cuInit, 5 ms after its first open and more than 100 ms before its first allocation. So after an open the
descriptors of all processes are counted a few times, and in between those of the processes that have the node open.
If no count that began after an open can be finished in time, somebody may be there whom nobody has seen, and that
counts as a newcomer.
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
_EVERYBODY_AFTER_S = (0.0, 0.007, 0.05, 0.25)
_CLOSELY_EVERY_S = 0.001
_CLOSELY_FOR_S = 0.5
"""Longer than NVML takes to list a process that has called cuInit: 40 to 260 ms."""
_SURE_AFTER_S = 0.2
"""A count of all that begins so long after an open finds its process with all its descriptors."""
_GIVE_UP_AFTER_S = 3.0
_LONG_S = 0.2


class Newcomers:
    """Counts which processes have the device nodes of some GPUs open, and how often."""

    def __init__(
        self,
        proc: Proc,
        nodes: Mapping[str, str],
        is_ours: Callable[[int], bool],
        ignored: Collection[str],
        monotonic_s: Callable[[], float],
        *,
        eager: bool,
    ) -> None:
        """`nodes`: the path of each GPU's device node, by UUID."""
        self._proc = proc
        self._uuids = {path: uuid for uuid, path in nodes.items()}
        self._is_ours = is_ours
        self._ignored = frozenset(ignored) | MONITORS
        self._monotonic_s = monotonic_s
        self._at_least = 1 if eager else HAS_BEGUN_CUDA
        self._known: dict[tuple[int, int], int] = {}
        self._near: set[int] = set()
        self._opened_s: float | None = None
        self._opened_uuids: set[str] = set()
        self._unsure_s: float | None = None
        """The first open whose process may not have been found yet."""
        self._due: list[float] = []
        """When all processes are looked at."""
        self._rests_until_s = 0.0

    def remember(self) -> None:
        """Take processes that have a node open now for known: they are newcomers only if they open it again."""
        self._among(self._everybody())

    def note_open(self, now_s: float, uuids: Collection[str] = ()) -> None:
        """Start the search: the nodes of these GPUs were opened."""
        soon = [due_s for due_s in self._due[:1] if due_s < now_s + _EVERYBODY_AFTER_S[-1]] or [now_s]
        self._due = [soon[0], *(now_s + after_s for after_s in _EVERYBODY_AFTER_S[1:])]
        self._opened_s = now_s
        self._opened_uuids.update(uuids)
        if self._unsure_s is None:
            self._unsure_s = now_s

    def stop(self) -> None:
        """End the search: further looks would only delay the newcomer."""
        self._opened_s = self._unsure_s = None
        self._due.clear()
        self._near.clear()
        self._opened_uuids.clear()

    def closely(self, now_s: float) -> bool:
        """Return whether a search is under way."""
        return self._opened_s is not None and (self._unsure_s is not None or now_s - self._opened_s < _CLOSELY_FOR_S)

    def next_look_s(self, now_s: float) -> float | None:
        """Return when to look again, or None if there is no reason to."""
        return now_s + _CLOSELY_EVERY_S if self.closely(now_s) else None

    def look(self, now_s: float) -> dict[str, Reason]:
        """Return by UUID the GPUs that a process is about to work on, each with that process."""
        if not self.closely(now_s):
            self.stop()
            return {}
        return self._among(sorted(self._near)) or self._among_everybody(now_s) or self._not_finished(now_s)

    def _among(self, pids: Iterable[int]) -> dict[str, Reason]:
        found: dict[str, Reason] = {}
        for pid in pids:
            counts = self._proc.open_counts(pid, self._uuids.keys())
            found.update({self._uuids[path]: self._opened(pid, path) for path in self._count(pid, counts)})
        return found

    def _among_everybody(self, now_s: float) -> dict[str, Reason]:
        if not self._due or now_s < max(self._due[0], self._rests_until_s):
            return {}
        self._due = [due_s for due_s in self._due if due_s > now_s]
        began_s = self._monotonic_s()
        found = self._among(self._everybody())
        took_s = self._monotonic_s() - began_s
        if took_s > _LONG_S:
            self._rests_until_s = now_s + 2 * took_s  # as long as it took
        sure_s = now_s - _SURE_AFTER_S
        if self._unsure_s is not None and self._opened_s is not None and self._unsure_s <= sure_s:
            self._unsure_s = None if self._opened_s <= sure_s else sure_s
        if self._unsure_s is not None and self._opened_s is not None and not self._due:
            self._due = [max(now_s, self._opened_s + _EVERYBODY_AFTER_S[-1])]
        return found

    def _everybody(self) -> list[int]:
        there = set(self._proc.pids()) - {os.getpid()}
        self._known = {identity: most for identity, most in self._known.items() if identity[0] in there}
        return sorted(there)

    def _not_finished(self, now_s: float) -> dict[str, Reason]:
        """Return the GPUs that were opened by somebody who was not found in time."""
        if self._unsure_s is None or now_s - self._unsure_s < _GIVE_UP_AFTER_S:
            return {}
        paths = {uuid: path for path, uuid in self._uuids.items() if uuid in self._opened_uuids}
        self.stop()
        return {uuid: Reason("opened_unseen", path=path) for uuid, path in paths.items()}

    def _count(self, pid: int, counts: Mapping[str, int]) -> list[str]:
        """Return the nodes that this process has open as often as CUDA does, and more often than when last seen."""
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
