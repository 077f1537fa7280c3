"""Find who waits for the GPUs of a job: launches in the queue that could use one of them.

A launch joins the queue of each GPU that would do, so a place there says that it could use this GPU. A place counts
if its label is true (see actuators/claims/queue.py) and its process runs. A launch that is stopped, that only tries
once, or that came a moment ago and may have another GPU in the next, does not count. Neither does one that was
started by the job itself: it would end with the job.
"""

from itertools import islice

from fallow.actuators.claims.claims import ClaimFile
from fallow.actuators.claims.queue import Queue
from fallow.core.errors import FallowError
from fallow.core.gpu import Snapshot, labels_of
from fallow.core.job import Job
from fallow.core.process import DEEPEST
from fallow.core.reasons import Reason
from fallow.core.reservations import Waiter
from fallow.core.units import program_name, shortened
from fallow.core.unknown import Unknown
from fallow.engine.machine.claim_holders import awake, stands
from fallow.engine.machine.world import World
from fallow.readers.proc import user_name

_WAITS_SINCE_S = 3.0
_NS = 1e9


class Line:
    """The queues of all GPUs; each is read once in a tick at most."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queue = Queue(world.folder, stands(world), awake(world))
        self._labels: dict[str, str] = {}
        self._read: dict[str, tuple[Waiter, ...] | Unknown] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Begin a tick: what was read before is old."""
        self._labels = labels_of(snapshot.gpus)
        self._read = {}

    def waits_for(self, job: Job) -> Reason | Unknown | None:
        """Return who waits for a GPU of the job and came first; None if nobody does, Unknown if that is unknown."""
        found: list[tuple[Waiter, str]] = []
        unread: Unknown | None = None
        for uuid in job.uuids:
            waiters = self._waiters(uuid)
            if isinstance(waiters, Unknown):
                unread = waiters
            else:
                found += [(waiter, uuid) for waiter in waiters if not self._is_of(job, waiter)]
        if not found:
            return unread
        waiter, uuid = min(found, key=lambda each: each[0].ticket)
        return Reason(
            "awaited",
            user=user_name(waiter.uid),
            gpu=self._labels.get(uuid, uuid),
            program=shortened(program_name(waiter.command)),
            pid=waiter.pid,
        )

    def _waiters(self, uuid: str) -> tuple[Waiter, ...] | Unknown:
        if uuid not in self._read:
            self._read[uuid] = self._look(uuid)
        return self._read[uuid]

    def _look(self, uuid: str) -> tuple[Waiter, ...] | Unknown:
        try:
            fd = self._world.folder.peek(uuid)
        except FallowError as error:
            return Unknown(f"who waits for it cannot be read: {error}")
        if fd is None:
            return ()
        file = ClaimFile(fd)
        now_s = self._world.clock.monotonic_s()
        since_s = now_s - _WAITS_SINCE_S
        try:
            return tuple(each for each in self._queue.waiting(file, now_s) if each.ticket / _NS <= since_s)
        except OSError as error:
            return Unknown(f"who waits for it cannot be read: {error.strerror}")
        finally:
            file.close()

    def _is_of(self, job: Job, waiter: Waiter) -> bool:
        pids = {process.pid for process in job.members}
        return not pids.isdisjoint((waiter.pid, *islice(self._world.proc.ancestors(waiter.pid), DEEPEST)))
