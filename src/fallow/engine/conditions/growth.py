"""How much the processes of a job used since the last look, by counters that the kernel keeps for each.

When a process has ended and its parent has waited for it, the kernel adds what it used to its parent. That was seen
before, and is taken off. If it was added nowhere, the parent's counter shows that.
"""

from collections.abc import Mapping

from fallow.core.process import Process
from fallow.core.value import value


@value
class Used:
    """What a process and its children that have ended used until now, and who its parent is."""

    parent: int
    amount: float


def growth(before: Mapping[Process, Used], now: Mapping[Process, Used]) -> float:
    """Return how much was used between two looks; what a process did before it was first seen counts as used."""
    by_pid = {process.pid: process for process in before}
    ended: dict[Process, float] = {}
    for process, used in before.items():
        if process not in now:
            heir = _heir(process, before, now, by_pid)
            if heir is not None:
                ended[heir] = ended.get(heir, 0.0) + used.amount
    total = 0.0
    for process, used in now.items():
        grown = used.amount - (before[process].amount if process in before else 0.0)
        seen = ended.get(process, 0.0)
        total += max(0.0, grown - seen if grown >= seen else grown)
    return total


def _heir(
    process: Process, before: Mapping[Process, Used], now: Mapping[Process, Used], by_pid: Mapping[int, Process]
) -> Process | None:
    """Return the nearest process above one that has ended which is still there."""
    passed = {process}
    while (parent := by_pid.get(before[process].parent)) is not None and parent not in passed:
        if parent in now:
            return parent
        passed.add(parent)
        process = parent
    return None
