"""Keep the GPUs of a job free while it is woken: they are claimed, so that fillers leave and nobody else comes.

The claim ends when the job is back. It is taken in the thread that wakes the job, with a claim folder of its own. All
GPUs are claimed at once or none, so that nothing is kept from others while one of them is waited for.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from fallow.actuators.claims.claims import ClaimFile, HeldClaim, take
from fallow.actuators.claims.fill_marks import filler_on
from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.core.reservations import Claim
from fallow.engine.machine.world import World

_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.05


@contextmanager
def kept_free(world: World, job: ParkedJob) -> Iterator[None]:
    """Claim the GPUs of a job, and wait until their fillers have left, a minute at most.

    Raise FallowError if they cannot be claimed within a minute.
    """
    place = _Place(world)
    try:
        place.take(job.uuids)
        place.wait_for_fillers(job.uuids)
        yield
    finally:
        place.leave()


class _Place:
    def __init__(self, world: World) -> None:
        self._clock = world.clock
        stat = world.proc.stat(os.getpid())
        birth = None if stat is None else stat.birth
        self._label = Claim(False, os.getpid(), world.user, "fallow wake", world.clock.wall_s(), birth)
        self._folder = ClaimFolder(folder_path(world.environ))
        self._held: list[HeldClaim] = []

    def take(self, uuids: tuple[str, ...]) -> None:
        if not self._within(_WITHIN_S, partial(self._claim_all, uuids)):
            raise FallowError(f"{', '.join(uuids)} cannot be kept free for it: somebody has claimed it")

    def wait_for_fillers(self, uuids: tuple[str, ...]) -> None:
        self._within(_WITHIN_S, lambda: all(map(self._is_clear, uuids)))

    def leave(self) -> None:
        self._end_claims()
        self._folder.close()

    def _end_claims(self) -> None:
        while self._held:
            self._held.pop().end()

    def _claim_all(self, uuids: tuple[str, ...]) -> bool:
        for uuid in uuids:
            held = take(self._folder, uuid, self._label)
            if held is None:
                self._end_claims()
                return False
            self._held.append(held)
        return True

    def _is_clear(self, uuid: str) -> bool:
        """Return whether no filler is on it."""
        fd = self._folder.peek(uuid)
        if fd is None:
            return True
        file = ClaimFile(fd)
        try:
            return filler_on(file) is None
        finally:
            file.close()

    def _within(self, limit_s: float, done: Callable[[], bool]) -> bool:
        until_s = self._clock.monotonic_s() + limit_s
        while not done():
            if self._clock.monotonic_s() >= until_s:
                return False
            self._clock.sleep(_LOOK_AGAIN_S)
        return True
