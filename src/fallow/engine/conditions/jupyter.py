"""The condition that the kernel of a notebook runs a cell, or was active a short time ago."""

from collections.abc import Iterator

from fallow.core.job import Job
from fallow.core.owner import OwnerKind
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.rate import Found
from fallow.engine.machine.world import World
from fallow.engine.owners.known import NOT_YET, KnownOwners
from fallow.readers.owners.traces import kernel_above

_LATE_AFTER_S = 10.0
_NO_SERVER = Unknown("no Jupyter server started its kernel, so none can be asked")
_OUT_OF_REACH = Unknown("the server of its kernel is out of reach, in a container or another scheduler's job")
_OF_VS_CODE = Unknown("its kernel belongs to VS Code, which cannot be asked")


class KernelInUse:
    """Asks the Jupyter servers of the kernels among the processes of a job. A job without a kernel is not judged."""

    def __init__(self, text: str, world: World, owners: KnownOwners, within_s: float) -> None:
        self.text = text
        self._world = world
        self._owners = owners
        self._within_s = within_s
        self._asked_s: float | None = None

    def __call__(self, job: Job) -> Found:
        """Return why a kernel of the job is in use."""
        doubt: Unknown | None = None
        for process in self._processes(job):
            found = self._of(process)
            if isinstance(found, Reason):
                return found
            doubt = found if doubt is None else doubt
        return doubt

    def _processes(self, job: Job) -> Iterator[Process]:
        """Return the processes of the job that hold GPUs."""
        yield from job.members
        known = {process.pid for process in job.members}
        for pid in frozenset[int]() if isinstance(job.pids, Unknown) else job.pids - known:
            stat = self._world.proc.stat(pid)
            if stat is not None:
                yield Process(pid, stat.birth)

    def _of(self, process: Process) -> Found:
        owner = self._owners.traced(process)
        if isinstance(owner, Unknown):
            return owner
        if owner.kind is OwnerKind.KERNEL:
            return _OF_VS_CODE
        if owner.kind is not OwnerKind.NOTEBOOK:
            uid = self._world.proc.uid(process.pid)
            kernel = None if uid is None else kernel_above(self._world.proc, process.pid, uid)
            return None if kernel is None else _OUT_OF_REACH
        contact = self._owners.contact(process, owner)
        if contact is None:
            return _NO_SERVER
        if isinstance(contact, Unknown):
            return contact if contact.asked else self._late()
        self._asked_s = None
        busy, active_at_s = contact.facts.busy, contact.facts.active_at_s
        if isinstance(busy, Unknown):
            return busy
        if busy:
            return Reason("kernel_busy")
        if isinstance(active_at_s, Unknown):
            return active_at_s
        ago_s = max(0.0, self._world.clock.wall_s() - active_at_s)
        return Reason("kernel_active", ago_s=ago_s) if ago_s < self._within_s else None

    def _late(self) -> Unknown:
        now_s = self._world.clock.monotonic_s()
        self._asked_s = now_s if self._asked_s is None else self._asked_s
        if now_s - self._asked_s < _LATE_AFTER_S:
            return NOT_YET
        return Unknown(f"its Jupyter server has not answered for {_LATE_AFTER_S:g} s")
