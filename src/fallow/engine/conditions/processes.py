"""Conditions on the processes of a job: how much CPU time they use, what they read and write, their network.

The processes of a job are those that hold its GPUs, the others of their process groups (a pipeline of the shell, a
launcher), all that its container or unit runs as far as that is known, and all below any of them. The job of `fallow
run` is everything that fallow started.
"""

import os
from collections.abc import Callable, Mapping
from threading import Lock

from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.conditions.beside import Beside, Lanes
from fallow.engine.conditions.growth import Used, growth
from fallow.engine.conditions.rate import Found, Rate
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from fallow.readers.proc import TICKS_PER_S, Proc, Stat

_TABLE_LASTS_S = 0.2
_MOST_PROCESSES = 4000
_ENDED = Unknown("its processes have ended", asked=False)
Counters = tuple[Mapping[Process, Used], ...]


@value
class _Wanted:
    """What a look begins with: the processes that hold GPUs, and the pids that its owner named."""

    members: frozenset[Process]
    pids: frozenset[int]


class JobProcesses:
    """Finds the processes of jobs. The table is read once for all that look within a moment, in any thread."""

    def __init__(self, world: World, owners: KnownOwners, *, started_here: bool = False) -> None:
        """`started_here`: the job was started by this process, as in `fallow run`."""
        self.proc: Proc = world.proc
        self._clock = world.clock
        self._owners = owners
        self._started_here = started_here
        self._lock = Lock()
        self._table: list[Stat] = []
        self._read_s = -_TABLE_LASTS_S

    def wanted(self, job: Job) -> _Wanted:
        """Return where to look for the processes of the job. Called by the loop, which alone asks for owners."""
        contact = self._owners.contact(job.first, job.owner)
        pids = contact.facts.pids if isinstance(contact, Contact) else frozenset[int]()
        return _Wanted(frozenset(job.members), frozenset() if isinstance(pids, Unknown) else pids)

    def rows(self, wanted: _Wanted) -> dict[Process, Stat] | Unknown:
        """Return all processes of the job; Unknown if it has none any more, or too many."""
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
                if len(found) > _MOST_PROCESSES:
                    return Unknown(f"it has more than {_MOST_PROCESSES} processes")
        return {process: row for process, row in found.items() if row.pid != me} or _ENDED

    def _rows(self, members: frozenset[Process]) -> list[Stat]:
        """Return all processes as they were a moment ago; anew if one that must be there is not."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            is_new = now_s - self._read_s < _TABLE_LASTS_S
            if not is_new or not members.issubset(Process(row.pid, row.birth) for row in self._table):
                self._table, self._read_s = self.proc.everybody(), now_s
            return self._table


class RateOfProcesses:
    """The condition that something of the job's processes grows faster than it may."""

    def __init__(
        self,
        text: str,
        processes: JobProcesses,
        lanes: Lanes,
        meter: Callable[[Callable[[], _Wanted]], Callable[[], float | Unknown]],
        above: float,
        reason: Callable[[float], Reason],
    ) -> None:
        """`meter` makes what reads, in a lane of the job's user, how much there was until now."""
        self.text = text
        self._processes = processes
        self._lanes = lanes
        self._wanted = _Wanted(frozenset(), frozenset())
        self._read = meter(lambda: self._wanted)
        self._beside: Beside[float] | None = None
        self._rate = Rate(text, self._latest, above, reason)

    def __call__(self, job: Job) -> Found:
        """Return the reason; None for a GPU that nobody holds."""
        if not job.members:
            return None
        self._wanted = self._processes.wanted(job)
        if self._beside is None:
            self._beside = Beside(self._lanes, _lane_of(job.user), self._read)
        return self._rate()

    def _latest(self) -> tuple[float, float] | Unknown:
        return _ENDED if self._beside is None else self._beside.latest()


def _lane_of(user: str) -> str:
    """Return the lane for a user's processes. Numbers without an account share one: some users have thousands."""
    return "processes of users without an account" if user.isdigit() else f"processes of {user}"


def cpu(text: str, processes: JobProcesses, lanes: Lanes, above: float) -> RateOfProcesses:
    """Return the condition that they use more than so much of a core."""

    def look(wanted: _Wanted) -> Counters | Unknown:
        rows = processes.rows(wanted)
        if isinstance(rows, Unknown):
            return rows
        return (
            {
                process: Used(row.parent, (row.cpu_ticks + row.reaped_ticks) / TICKS_PER_S)
                for process, row in rows.items()
            },
        )

    return RateOfProcesses(
        text, processes, lanes, lambda wanted: _Meter(wanted, look), above, lambda load: Reason("job_cpu", load=load)
    )


def io(text: str, processes: JobProcesses, lanes: Lanes, above_bytes: float) -> RateOfProcesses:
    """Return the condition that they read and write more, by their calls or from and to storage: whichever is more.

    Calls show what comes out of the cache, and storage what a program reads through mapped memory.
    """

    def look(wanted: _Wanted) -> Counters | Unknown:
        rows = processes.rows(wanted)
        if isinstance(rows, Unknown):
            return rows
        by_calls: dict[Process, Used] = {}
        of_storage: dict[Process, Used] = {}
        for process, row in rows.items():
            moved = processes.proc.io_bytes(process.pid)
            if isinstance(moved, Unknown):
                if processes.proc.has_ended(process.pid, process.birth):
                    continue
                return moved
            by_calls[process], of_storage[process] = Used(row.parent, moved[0]), Used(row.parent, moved[1])
        return by_calls, of_storage

    return RateOfProcesses(
        text,
        processes,
        lanes,
        lambda wanted: _Meter(wanted, look),
        above_bytes,
        lambda rate: Reason("job_io", rate_bytes=rate),
    )


def net(text: str, processes: JobProcesses, lanes: Lanes, above_bytes: float) -> RateOfProcesses:
    """Return the condition that the interfaces of the job's network namespace move more.

    The kernel does not count by process. A job in the namespace of the machine is judged by the machine's interfaces,
    so that in doubt a neighbour's traffic counts for the job. Loopback does not count.
    """
    proc, whose = processes.proc, ["the machine's"]

    def look(wanted: _Wanted) -> float | Unknown:
        ours, namespaces = proc.net_namespace(os.getpid()), dict[int, int]()
        for process in wanted.members:
            namespace = proc.net_namespace(process.pid)
            if isinstance(namespace, int):
                namespaces[namespace] = process.pid
            elif not proc.has_ended(process.pid, process.birth):
                return namespace
        if not namespaces:
            return _ENDED
        whose[0] = "the machine's" if ours in namespaces else "its own"
        total = 0
        for pid in namespaces.values():
            moved = proc.net_bytes(pid)
            if isinstance(moved, Unknown):
                return moved
            total += moved
        return total

    return RateOfProcesses(
        text,
        processes,
        lanes,
        lambda wanted: lambda: look(wanted()),
        above_bytes,
        lambda rate: Reason("job_network", whose=whose[0], rate_bytes=rate),
    )


class _Meter:
    """Adds up what the processes of one job used, from look to look."""

    def __init__(self, wanted: Callable[[], _Wanted], look: Callable[[_Wanted], Counters | Unknown]) -> None:
        self._wanted = wanted
        self._look = look
        self._before: Counters | None = None
        self._total = 0.0

    def __call__(self) -> float | Unknown:
        """Return the sum until now."""
        now = self._look(self._wanted())
        if isinstance(now, Unknown):
            return now
        if self._before is not None:
            self._total += max(growth(before, after) for before, after in zip(self._before, now, strict=True))
        self._before = now
        return self._total
