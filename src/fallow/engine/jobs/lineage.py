"""A process and those above it, read once for all jobs of some seconds, and not further up than programs nest."""

from itertools import islice

from fallow.core.process import DEEPEST
from fallow.engine.machine.world import World

_LASTS_S = 5.0
_MOST = 10_000


class Lineage:
    """The lines of processes that were asked for lately."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: dict[int, tuple[float, frozenset[int]]] = {}

    def of(self, pid: int) -> frozenset[int]:
        """Return the process and those above it, as they were some seconds ago at most."""
        now_s = self._world.clock.monotonic_s()
        read_s, line = self._lines.get(pid, (-_LASTS_S, frozenset()))
        if now_s - read_s >= _LASTS_S:
            line = frozenset((pid, *islice(self._world.proc.ancestors(pid), DEEPEST)))
            if len(self._lines) >= _MOST:
                self._lines.clear()
            self._lines[pid] = now_s, line
        return line
