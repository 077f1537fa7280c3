"""Find who waits for the GPUs of a job: launches in line that could use one of them.

A launch says in its place which GPUs would do. A launch that is stopped, or that came a moment ago and may have
another GPU in the next, does not count. Neither does one that was started by the job itself: it would end with the
job.
"""

from collections.abc import Sequence
from itertools import islice

from fallow.core.errors import FallowError
from fallow.core.gpu import Snapshot, labels_of
from fallow.core.job import Job
from fallow.core.process import DEEPEST
from fallow.core.reasons import Reason
from fallow.core.reservations import Waiter
from fallow.core.units import program_name, shortened
from fallow.core.unknown import Unknown
from fallow.engine.machine.claims_seen import line
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name

_WAITS_SINCE_S = 3.0


class Line:
    """The launches that wait, read once in a tick."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._labels: dict[str, str] = {}
        self._waiters: Sequence[Waiter] | Unknown = ()

    def begin(self, snapshot: Snapshot) -> None:
        """Begin a tick: what was read before is old."""
        self._labels = labels_of(snapshot.gpus)
        since_s = self._world.clock.monotonic_s() - _WAITS_SINCE_S
        try:
            self._waiters = [waiter for waiter in line(self._world) if waiter.came_s <= since_s]
        except FallowError as error:
            self._waiters = Unknown(f"who waits for it cannot be read: {error}")

    def waits_for(self, job: Job) -> Reason | Unknown | None:
        """Return who waits for a GPU of the job and came first; None if nobody does, Unknown if that is unknown."""
        if isinstance(self._waiters, Unknown):
            return self._waiters
        for waiter in self._waiters:
            uuid = next((uuid for uuid in job.uuids if uuid in waiter.gpus), None)
            if uuid is not None and not self._is_of(job, waiter):
                return Reason(
                    "awaited",
                    user=user_name(waiter.uid),
                    gpu=self._labels.get(uuid, uuid),
                    program=shortened(program_name(waiter.note.program or "?")),
                    pid=waiter.note.pid or "?",
                )
        return None

    def _is_of(self, job: Job, waiter: Waiter) -> bool:
        pid = waiter.note.pid
        pids = {process.pid for process in job.members}
        return pid is not None and not pids.isdisjoint((pid, *islice(self._world.proc.ancestors(pid), DEEPEST)))
