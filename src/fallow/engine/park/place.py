"""Keep the GPUs of a job free while it is woken: they are claimed, so that fillers leave and nobody else comes.

The claim ends when the job is back. It is taken in the thread that wakes the job, with a claim folder of its own. All
GPUs are claimed at once or none, so that nothing is kept from others while one of them is waited for.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Timer

from fallow.actuators.claims.claims import FILLER_BYTE, ClaimFile, HeldClaim, take
from fallow.actuators.claims.fill_marks import filler_on
from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.reservations import Claim
from fallow.engine.machine.world import World
from fallow.readers.lock_holders import LockHolders

_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.05


@contextmanager
def kept_free(world: World, job: ParkedJob, for_s: float | None = None) -> Iterator[None]:
    """Claim the GPUs of a job, and wait until their fillers have left, a minute at most.

    Raise FallowError if they cannot be claimed within a minute. `for_s` is how long they are claimed at most, which
    includes the wait for fillers.
    """
    place = _Place(world)
    try:
        place.take(job.uuids)
        with place.left_after(for_s):
            place.wait_for_fillers(job.uuids, _WITHIN_S if for_s is None else min(for_s, _WITHIN_S))
            yield
    finally:
        place.leave()


class _Place:
    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._proc = world.proc
        stat = world.proc.stat(os.getpid())
        birth = None if stat is None else stat.birth
        self._label = Claim(False, os.getpid(), world.user, "fallow wake", world.clock.wall_s(), birth)
        self._folder = ClaimFolder(folder_path(world.environ))
        self._lock_holders = LockHolders(world.proc, world.clock)
        self._held: list[HeldClaim] = []
        self._leaving = Lock()

    def take(self, uuids: tuple[str, ...]) -> None:
        if not self._within(_WITHIN_S, partial(self._claim_all, uuids)):
            raise FallowError(f"{', '.join(uuids)} cannot be kept free for it: somebody has claimed it")

    def wait_for_fillers(self, uuids: tuple[str, ...], limit_s: float) -> None:
        self._within(limit_s, lambda: all(map(self._is_clear, uuids)))

    def leave(self) -> None:
        self._end_claims()
        self._folder.close()

    def _end_claims(self) -> None:
        """End the claims; from any thread, also twice."""
        with self._leaving:
            while self._held:
                self._held.pop().end()

    @contextmanager
    def left_after(self, for_s: float | None) -> Iterator[None]:
        """End the claims after so long at the latest."""
        if for_s is None:
            yield
            return
        timer = Timer(for_s, self._end_claims)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _claim_all(self, uuids: tuple[str, ...]) -> bool:
        for uuid in uuids:
            held = take(self._folder, uuid, self._label)
            if held is None:
                self._end_claims()
                return False
            self._held.append(held)
        return True

    def _is_clear(self, uuid: str) -> bool:
        """Return whether no filler is on it that leaves. Anybody can mark a GPU, and such a mark may stay."""
        fd = self._folder.peek(uuid)
        if fd is None:
            return True
        file = ClaimFile(fd)
        try:
            label = filler_on(file)
            return label is None or not self._is_true(file, label)
        finally:
            file.close()

    def _is_true(self, file: ClaimFile, label: Claim) -> bool:
        """Return whether the kernel shows that root or our own user holds the mark."""
        stat = None if label.pid is None else self._proc.stat(label.pid)
        named = None if stat is None else Process(stat.pid, stat.birth)
        holder = self._lock_holders.holder(file.fd, FILLER_BYTE, named).holder
        return holder is not None and self._proc.uid(holder.pid) in (0, os.geteuid())

    def _within(self, limit_s: float, done: Callable[[], bool]) -> bool:
        until_s = self._clock.monotonic_s() + limit_s
        while not done():
            if self._clock.monotonic_s() >= until_s:
                return False
            self._clock.sleep(_LOOK_AGAIN_S)
        return True
