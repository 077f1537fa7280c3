"""The job on a GPU that is shown where there is room for one: of several, one that works, then with most memory."""

import re
from collections.abc import Iterable, Sequence

from fallow.core.activity import AVAILABLE
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, people_on
from fallow.core.job import IDLE_BELOW
from fallow.core.owner import OwnerKind
from fallow.core.reservations import Claim
from fallow.core.units import shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value

_LONGEST = 200
_BY_PYTHON = re.compile(r"python[\d.]* (?:-[uBEIOs]+ )*(?:-m )?(?=[^-\s])")
_NOBODY_KNOWN = Unknown("nobody can tell who holds it")


@value
class MainJob:
    """A job in a few words."""

    user: str | Unknown
    what: str
    """Its owner by name, else its command; why the GPU is judged as it is where no job is known."""
    pid: int | None = None
    more: int = 0
    """How many others are on the GPU."""

    @property
    def named(self) -> str:
        """Return what it is, with its pid where only the name of a program can be read: many are called python3."""
        return self.what if self.pid is None or " " in self.what else f"{self.what} pid {self.pid}"

    @property
    def script(self) -> str:
        """Return what tells it from others where there is little room: the script, and not that Python runs it."""
        return _BY_PYTHON.sub("", self.what, count=1)


def main_job(gpu: GpuStatus) -> MainJob | None:
    """Return the job that works, or else holds most of its memory; else its filler or claim; None for nobody."""
    jobs = _jobs(people_on(gpu))
    if jobs:
        most = max(jobs, key=lambda job: (_works(job), _memory_bytes(job)))
        holder = max(most, key=lambda each: _memory_bytes((each,)))
        return MainJob(holder.user, _what(holder), holder.pid, len(jobs) - 1 + (gpu.filler is not None))
    for reserved, what in ((gpu.filler, "filler"), (gpu.claim, "claimed")):
        if isinstance(reserved, Claim):
            if reserved.pid is None and reserved is gpu.claim:
                return MainJob(_NOBODY_KNOWN, str(reserved))
            command = _without_folder(reserved.command or "")
            return MainJob(reserved.user or _NOBODY_KNOWN, f"{what}: {command}" if command else what, reserved.pid)
    return None if gpu.activity in AVAILABLE else MainJob(_NOBODY_KNOWN, gpu.because)


def _jobs(people: Sequence[Holder]) -> list[list[Holder]]:
    """Return the holders by their owner; what has no lasting owner is a job of its own."""
    jobs: dict[object, list[Holder]] = {}
    for holder in people:
        owner = holder.owner
        lasts = not isinstance(owner, Unknown) and owner.is_lasting
        jobs.setdefault(owner.key if lasts and not isinstance(owner, Unknown) else holder.pid, []).append(holder)
    return list(jobs.values())


def _works(holders: Iterable[Holder]) -> bool:
    """Return whether they are known to run something on the GPU."""
    return sum(each.utilization for each in holders if not isinstance(each.utilization, Unknown)) >= IDLE_BELOW


def _memory_bytes(holders: Iterable[Holder]) -> int:
    """Return how much they hold, as far as that is known."""
    return sum(each.memory_bytes for each in holders if not isinstance(each.memory_bytes, Unknown))


def _what(holder: Holder) -> str:
    owner = holder.owner
    if not isinstance(owner, Unknown) and (owner.is_lasting or owner.kind is OwnerKind.KERNEL):
        return shortened(owner.label, _LONGEST)
    return "?" if isinstance(holder.command, Unknown) else _without_folder(holder.command)


def _without_folder(command: str) -> str:
    """Return the command without the folder of its program, which tells least."""
    program, space, rest = shortened(command, _LONGEST).partition(" ")
    return f"{program.rpartition('/')[2] or program}{space}{rest}"
