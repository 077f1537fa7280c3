"""The condition on the processes of a job: how much CPU time they use.

The processes of a job are those that hold its GPUs, the others of their process groups (a pipeline of the shell, a
launcher), all that its container or unit runs as far as that is known, and all below any of them. The job of `fallow
run` is everything that fallow started.
"""

import os

from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.conditions.beside import Beside, Lanes
from fallow.engine.conditions.rate import Found, Rate
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from fallow.readers.proc import TICKS_PER_S, Stat

_TABLE_LASTS_S = 0.2
_ENDED = Unknown("its processes have ended", asked=False)


@value
class _Wanted:
    """What a look begins with: the processes that hold GPUs, and the pids that its owner named."""

    members: frozenset[Process]
    pids: frozenset[int]


class JobProcesses:
    """Finds the processes of jobs. The table is read once for all that look within a moment."""

    def __init__(self, world: World, owners: KnownOwners, *, started_here: bool = False) -> None:
        """`started_here`: the job was started by this process, as in `fallow run`."""
        self._proc = world.proc
        self._clock = world.clock
        self._owners = owners
        self._started_here = started_here
        self._table: list[Stat] = []
        self._read_s = -_TABLE_LASTS_S

    def wanted(self, job: Job) -> _Wanted:
        """Return where to look for the processes of the job. Called by the loop, which alone asks for owners."""
        contact = self._owners.contact(job.first, job.owner)
        pids = contact.facts.pids if isinstance(contact, Contact) else frozenset[int]()
        return _Wanted(frozenset(job.members), frozenset() if isinstance(pids, Unknown) else pids)

    def rows(self, wanted: _Wanted) -> dict[Process, Stat] | Unknown:
        """Return all processes of the job; Unknown if it has none any more."""
        me, table = os.getpid(), self._rows(wanted.members)
        here = [row for row in table if Process(row.pid, row.birth) in wanted.members]
        groups = {row.group for row in here} - {os.getpgrp()}
        first = {row.pid for row in here} | wanted.pids | ({me} if self._started_here else set())
        children: dict[int, list[Stat]] = {}
        for row in table:
            children.setdefault(row.parent, []).append(row)
        todo = [row for row in table if row.pid in first or row.group in groups]
        found: dict[Process, Stat] = {}
        while todo:
            row = todo.pop()
            process = Process(row.pid, row.birth)
            if process not in found:
                found[process] = row
                todo.extend(children.get(row.pid, ()))
        return {process: row for process, row in found.items() if row.pid != me} or _ENDED

    def _rows(self, members: frozenset[Process]) -> list[Stat]:
        """Return all processes as they were a moment ago; anew if one that must be there is not."""
        now_s = self._clock.monotonic_s()
        is_new = now_s - self._read_s < _TABLE_LASTS_S
        if not is_new or not members.issubset(Process(row.pid, row.birth) for row in self._table):
            self._table, self._read_s = self._proc.everybody(), now_s
        return self._table


class UsesCpu:
    """The condition that the processes of a job use more than so much of a core."""

    def __init__(self, text: str, processes: JobProcesses, lanes: Lanes, above: float) -> None:
        self.text = text
        self._processes = processes
        self._wanted = _Wanted(frozenset(), frozenset())
        self._before: dict[Process, int] | None = None
        self._ticks = 0
        self._beside = Beside(lanes, "processes of jobs", self._used_s)
        self._rate = Rate(text, self._beside.latest, above, lambda load: Reason("job_cpu", load=load))

    def __call__(self, job: Job) -> Found:
        """Return the reason; None for a GPU that nobody holds."""
        if not job.members:
            return None
        self._wanted = self._processes.wanted(job)
        return self._rate()

    def _used_s(self) -> float | Unknown:
        """Return the CPU time that was used since the first look.

        What a process did before it was first seen counts. What a child used that has ended counts once more: the
        kernel adds it to its parent.
        """
        rows = self._processes.rows(self._wanted)
        if isinstance(rows, Unknown):
            return rows
        now = {process: row.cpu_ticks + row.reaped_ticks for process, row in rows.items()}
        if self._before is not None:
            self._ticks += sum(max(0, ticks - self._before.get(process, 0)) for process, ticks in now.items())
        self._before = now
        return self._ticks / TICKS_PER_S
