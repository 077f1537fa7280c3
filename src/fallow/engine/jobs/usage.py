"""What the job of `fallow run` used: the share of the time in which its GPUs worked, its memory, their energy.

Each is added up from the looks at the job while it is watched. What no look could tell stays Unknown.
"""

from collections.abc import Sequence

from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import Job, JobActivity, find_gpu, job_activity, own_holders
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value
from fallow.core.witnessed_time import witnessed_s


@value
class Used:
    """What a job used on all its GPUs together."""

    for_s: float
    busy: float | Unknown = NOT_ASKED
    """The share of the time of its GPUs in which it worked on them, 0..1; a hang is no work."""
    memory_bytes: int | Unknown = NOT_ASKED
    """The most memory that its processes held at one look, on all its GPUs."""
    energy_j: float | Unknown = NOT_ASKED
    """What its GPUs drew, by their power at each look: all of a GPU that it shares with others."""


class UsageMeter:
    """Adds up what one job uses."""

    def __init__(self, uuids: Sequence[str], idle_below: float, longest_gap_s: float) -> None:
        self._uuids = uuids
        self._idle_below = idle_below
        self._longest_gap_s = longest_gap_s
        self._at_s: float | None = None
        self._hung_s = 0.0
        self._busy_s = 0.0
        self._known_s = 0.0
        self._memory_bytes: int | Unknown = NOT_ASKED
        self._drawn_j: dict[str, float] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Take the first look, when the job has just been started."""
        self._at_s = snapshot.at_s

    def add(self, snapshot: Snapshot, job: Job, hung_s: float) -> None:
        """Add the time since the last look. `hung_s`: for how long the job has been seen to hang so far."""
        passed_s = witnessed_s(self._at_s, snapshot.at_s, self._longest_gap_s)
        hangs = hung_s > self._hung_s
        self._at_s, self._hung_s = snapshot.at_s, hung_s
        for gpu in job.gpus:
            found = job_activity(snapshot, [gpu], job.pids, self._idle_below).activity
            if found is not JobActivity.UNKNOWN:
                self._known_s += passed_s
                self._busy_s += passed_s if found is JobActivity.BUSY and not hangs else 0.0
        self._draw(snapshot, passed_s)
        held = _memory(snapshot, job)
        if not isinstance(held, Unknown):
            known = self._memory_bytes
            self._memory_bytes = held if isinstance(known, Unknown) else max(known, held)

    def used(self, for_s: float) -> Used:
        """Return what the job used until the last look."""
        busy = self._busy_s / self._known_s if self._known_s else Unknown("no look covers any of its time")
        if self._drawn_j.keys() == set(self._uuids):
            return Used(for_s, busy, self._memory_bytes, sum(self._drawn_j.values()))
        return Used(for_s, busy, self._memory_bytes, Unknown("the power of its GPUs was not read"))

    def _draw(self, snapshot: Snapshot, passed_s: float) -> None:
        """Add the energy of each GPU; a MIG instance shows the power of its whole card."""
        for uuid in self._uuids:
            gpu = find_gpu(snapshot, uuid)
            if passed_s and not isinstance(gpu, Unknown) and gpu.mig is None and not isinstance(gpu.power_w, Unknown):
                self._drawn_j[uuid] = self._drawn_j.get(uuid, 0.0) + gpu.power_w * passed_s


def _memory(snapshot: Snapshot, job: Job) -> int | Unknown:
    """Return the memory of the job on all its GPUs; Unknown if that of one of them is."""
    total = 0
    for key in job.gpus:
        gpu = key.find_in(snapshot)
        held = gpu if isinstance(gpu, Unknown) else _memory_on(gpu, job)
        if isinstance(held, Unknown):
            return held
        total += held
    return total


def _memory_on(gpu: Gpu, job: Job) -> int | Unknown:
    own = own_holders(gpu, job.pids)
    if isinstance(own, Unknown):
        return own
    if not own and gpu.holders:
        # Inside a container the driver's pids are not ours: another's pid may be one of the job.
        return Unknown("none of its processes is listed")
    total = 0
    for holder in own:
        if isinstance(holder.memory_bytes, Unknown):
            return holder.memory_bytes
        total += holder.memory_bytes
    return total
