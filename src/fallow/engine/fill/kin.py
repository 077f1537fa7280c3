"""Find out whether a process belongs to a filler of ours: whether one of our keepers is among its ancestors.

That never changes, so it is remembered: a process that is not a descendant of ours does not become one. Its ancestors
may end meanwhile, and their pids be used again, so what was seen first is the truth.

If a keeper was just killed, what it kept has become our child, as has what hooks left running. Until that filler is
ended too, all our orphans count as its own, and this is not remembered.
"""

import os
from collections.abc import Callable, Collection

from fallow.actuators.process import spawn
from fallow.core.process import Process
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value
from fallow.readers.proc import Proc

_MOST_REMEMBERED = 1000
_FIRST_PROCESS = 1
_ENDED = "ZX"


@value
class Kin:
    """What a process is to us."""

    there: bool
    keeper: int | None
    """Our keeper above it, if there is one."""
    ours: bool
    """Whether it belongs to a filler of ours."""


class KinFinder:
    """Finds it once a turn for each pid, since many slots need it."""

    def __init__(self, proc: Proc, keepers: Callable[[], Collection[int | None]]) -> None:
        self._proc = proc
        self._keepers = keepers
        self._this_turn: dict[int, Kin] = {}
        self._remembered: dict[Process, Kin] = {}

    def begin_turn(self) -> None:
        """Look at each process again: a pid may be of another one."""
        self._this_turn.clear()

    def of(self, pid: int, birth: int | Unknown = NOT_ASKED) -> Kin:
        """Return what the process is to us; its birth is read if it is not given."""
        kin = self._this_turn.get(pid)
        if kin is None:
            if isinstance(birth, Unknown):
                stat = self._proc.stat(pid)
                birth = birth if stat is None else stat.birth
            process = None if isinstance(birth, Unknown) else Process(pid, birth)
            kin = self._this_turn[pid] = self._remember(process) or self._find(pid, process)
        return kin

    def _remember(self, process: Process | None) -> Kin | None:
        return None if process is None else self._remembered.get(process)

    def _find(self, pid: int, process: Process | None) -> Kin:
        line, keepers = self._proc.lineage(pid), self._keepers()
        keeper = next((each for each in line if each in keepers), None)
        adopted = keeper is None and os.getpid() in line[1:] and spawn.waited_for.isdisjoint(line)
        of_killed = adopted and any(map(self._has_ended, keepers))
        kin = Kin(bool(line), keeper, keeper is not None or of_killed)
        # Without the first process at its end, an ancestor ended meanwhile, or is hidden.
        if process is not None and line[-1:] == (_FIRST_PROCESS,) and not of_killed:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[process] = kin
        return kin

    def _has_ended(self, keeper: int | None) -> bool:
        """Return whether a keeper has ended; we have not reaped it yet."""
        stat = None if keeper is None else self._proc.stat(keeper)
        return keeper is not None and (stat is None or stat.state in _ENDED)
