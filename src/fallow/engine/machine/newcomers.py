"""Find the process that is about to work on a GPU, after an open of its device node.

An open is no proof: monitors open the node too, up to three times. A process that has four descriptors on it has
called cuInit, 5 ms after its first open and more than 100 ms before its first allocation. So after an open the
descriptors of all processes are counted a few times, and in between those of the processes that have the node open.

Any user can open the node without pause, and thousands of files in many processes. So there is a budget for each
second, for all searches together: a round that has used it up goes on at the next look. New processes come first,
then those with few descriptors. If no round that began after an open can be finished in time, somebody may be there
whom nobody has seen, and that counts as a newcomer.
"""

import os
from collections.abc import Callable, Collection, Mapping

from fallow.core.reasons import Reason
from fallow.policies.signs import process_in_words
from fallow.readers.descriptors import how_many, open_files
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
_EVERYBODY_AFTER_S = (0.0, 0.002, 0.004, 0.007, 0.012, 0.025, 0.05, 0.1, 0.25)
_CLOSELY_EVERY_S = 0.001
_CLOSELY_FOR_S = 0.5
"""Longer than NVML takes to list a process that has called cuInit: 40 to 260 ms."""
_TOGETHER_S = 0.05
"""Opens that follow each other so quickly are one."""
_SURE_AFTER_S = 0.2 + _TOGETHER_S
"""A round that begins so long after an open finds its process with all its descriptors."""
_GIVE_UP_AFTER_S = 3.0
_PAUSE_S = 0.02
_STEPS_OF_A_PROCESS = 8
_NEAR_AT_ONCE = 4_096
_AT_ONCE = 16_384


class Budget:
    """How much all searches together may read in a second; a step is a descriptor. What is overdrawn is a debt."""

    def __init__(self, steps: int = 40_000) -> None:
        """The usual `steps` take about a fifth of a second of CPU time."""
        self.steps = steps
        self._since_s = float("-inf")
        self._spent = 0

    def begin(self, now_s: float) -> None:
        """Note the time: each second has a budget of its own."""
        passed = now_s - self._since_s
        if passed >= 1:
            self._spent = max(0, self._spent - self.steps * int(min(passed, 1000)))
            self._since_s = now_s

    def spend(self, descriptors: int) -> int:
        """Note that a process with so many descriptors was looked into; return the steps."""
        steps = _STEPS_OF_A_PROCESS + descriptors
        self._spent += steps
        return steps

    def has(self, share: float = 1.0) -> bool:
        """Return whether less than this share of it is spent."""
        return self._spent < self.steps * share


class _Round:
    """One count of the descriptors of all processes, and how far it has come."""

    def __init__(self, start_s: float, pids: list[int]) -> None:
        self.start_s = start_s
        self.left = pids
        """From the last one to the first."""


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
        budget: Budget | None = None,
    ) -> None:
        """`nodes`: the path of each GPU's device node, by UUID."""
        self._proc = proc
        self._uuids = {path: uuid for uuid, path in nodes.items()}
        self._is_ours = is_ours
        self._ignored = frozenset(ignored) | MONITORS
        self._at_least = 1 if eager else HAS_BEGUN_CUDA
        self._budget = Budget() if budget is None else budget
        self._known: dict[tuple[int, int], int] = {}
        self._near: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._opened_s: float | None = None
        self._opened_uuids: set[str] = set()
        self._unsure: list[float] = []
        self._due: list[tuple[float, bool]] = []
        """When a round begins, and whether the search is unsure without it."""
        self._round: _Round | None = None

    def remember(self) -> None:
        """Take processes that have a node open now for known: they are newcomers only if they open it again.

        As far as two seconds of the budget go. Who is not remembered counts as a newcomer at the next open.
        """
        steps = 2 * self._budget.steps
        for pid in self._few_first():
            counts, read = self._counted(pid)
            self._count(pid, counts)
            steps -= _STEPS_OF_A_PROCESS + read
            if steps <= 0:
                break

    def note_open(self, now_s: float, uuids: Collection[str] = ()) -> None:
        """Start the search: the nodes of these GPUs were opened."""
        self._opened_s = now_s
        self._opened_uuids.update(uuids)
        if not self._unsure or now_s - self._unsure[-1] >= _TOGETHER_S:
            self._unsure.append(now_s)
        needed = (_EVERYBODY_AFTER_S[0], _EVERYBODY_AFTER_S[-1])
        self._due = [(now_s + after_s, after_s in needed) for after_s in _EVERYBODY_AFTER_S]

    def stop(self) -> None:
        """End the search: further looks would only delay the newcomer."""
        self._opened_s = self._round = None
        self._near.clear()
        self._unsure.clear()
        self._opened_uuids.clear()

    def closely(self, now_s: float) -> bool:
        """Return whether a search is under way."""
        return self._opened_s is not None and (bool(self._unsure) or now_s - self._opened_s < _CLOSELY_FOR_S)

    def next_look_s(self, now_s: float) -> float | None:
        """Return when to look again, or None if there is no reason to."""
        if not self.closely(now_s):
            return None
        return now_s + (_CLOSELY_EVERY_S if self._budget.has() else _PAUSE_S)

    def look(self, now_s: float) -> dict[str, Reason]:
        """Return by UUID the GPUs that a process is about to work on, each with that process."""
        if not self.closely(now_s):
            self.stop()
            return {}
        self._budget.begin(now_s)
        return self._among_near() or self._among_everybody(now_s) or self._not_finished(now_s)

    def _among_near(self) -> dict[str, Reason]:
        steps, found = 0, {}
        for pid in sorted(self._near, key=self._size):
            if steps + self._size(pid) > _NEAR_AT_ONCE or not self._budget.has(0.75):
                break  # the rounds count them, too
            counts, read = self._counted(pid)
            steps += self._budget.spend(read)
            found.update(self._newly(pid, counts))
        return found

    def _among_everybody(self, now_s: float) -> dict[str, Reason]:
        if self._round is None:
            due = [needed for due_s, needed in self._due if due_s <= now_s]
            # Only what makes the search sure may use up the budget: the next open needs some, too.
            if not due or not self._budget.has(1.0 if any(due) else 0.5):
                return {}
            self._due = self._due[len(due) :]
            self._round = _Round(now_s, self._few_first()[::-1])
        steps, found = 0, {}
        while self._round.left and steps < _AT_ONCE and self._budget.has():
            pid = self._round.left.pop()
            counts, read = self._counted(pid)
            steps += self._budget.spend(read)
            found.update(self._newly(pid, counts))
            if found:
                return found
        if not self._round.left:
            sure_s, self._round = self._round.start_s - _SURE_AFTER_S, None
            self._unsure = [open_s for open_s in self._unsure if open_s > sure_s]
            if self._unsure and not self._due:  # it began too early for the last open
                self._due = [(max(now_s, self._unsure[-1] + _SURE_AFTER_S), True)]
        return found

    def _not_finished(self, now_s: float) -> dict[str, Reason]:
        """Return the GPUs that were opened by somebody who was not found in time."""
        if not self._unsure or now_s - self._unsure[0] < _GIVE_UP_AFTER_S:
            return {}
        paths = {uuid: path for path, uuid in self._uuids.items() if uuid in self._opened_uuids}
        self.stop()
        return {uuid: Reason("opened_unseen", path=path) for uuid, path in paths.items()}

    def _few_first(self) -> list[int]:
        """Return all processes: new ones, then the others, each with few descriptors before those with many."""
        there = set(self._proc.pids()) - {os.getpid()}
        known, self._sizes = self._sizes, {}
        for pid in there:
            self._sizes[pid] = known[pid] if pid in known else how_many(self._proc.root, pid)
        self._known = {identity: most for identity, most in self._known.items() if identity[0] in there}
        return sorted(there, key=lambda pid: (pid in known, self._sizes[pid]))

    def _size(self, pid: int) -> int:
        return self._sizes.get(pid, 0)

    def _counted(self, pid: int) -> tuple[dict[str, int], int]:
        """Return how often a process has each node open, and how many descriptors were read for that."""
        found = open_files(self._proc.root, pid, self._uuids.keys())
        self._sizes[pid] = found.read
        return found.counts, found.read

    def _newly(self, pid: int, counts: Mapping[str, int]) -> dict[str, Reason]:
        return {self._uuids[path]: self._opened(pid, path) for path in self._count(pid, counts)}

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
