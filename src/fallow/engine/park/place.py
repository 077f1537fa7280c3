"""Keep the GPUs of a job free while it is woken: they are claimed, so that fillers leave and nobody else comes.

The claim ends when the job is back. It is taken in the thread that wakes the job, with a claim folder of its own.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Timer

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
def kept_free(world: World, job: ParkedJob, for_s: float | None = None) -> Iterator[None]:
    """Claim the GPUs of a job, and wait until their fillers have left, a minute at most in all.

    Raise FallowError if they cannot be claimed. `for_s` is how long they are kept free at most once that is done.
    """
    place = _Place(world)
    try:
        place.take(job.uuids)
        with place.left_after(for_s):
            yield
    finally:
        place.leave()


class _Place:
    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._until_s = world.clock.monotonic_s() + _WITHIN_S
        stat = world.proc.stat(os.getpid())
        birth = None if stat is None else stat.birth
        self._label = Claim(False, os.getpid(), world.user, "fallow wake", world.clock.wall_s(), birth)
        self._folder = ClaimFolder(folder_path(world.environ))
        self._held: list[HeldClaim] = []
        self._leaving = Lock()

    def take(self, uuids: tuple[str, ...]) -> None:
        for uuid in uuids:
            if not self._in_time(partial(self._claim, uuid)):
                raise FallowError(f"GPU {uuid} cannot be kept free for it: somebody has claimed it")
        for uuid in uuids:
            self._in_time(partial(self._is_clear, uuid))

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

    def _claim(self, uuid: str) -> bool:
        held = take(self._folder, uuid, self._label)
        if held is not None:
            self._held.append(held)
        return held is not None

    def _is_clear(self, uuid: str) -> bool:
        file = ClaimFile(self._folder.open(uuid))
        try:
            return filler_on(file) is None
        finally:
            file.close()

    def _in_time(self, done: Callable[[], bool]) -> bool:
        while not done():
            if self._clock.monotonic_s() >= self._until_s:
                return False
            self._clock.sleep(_LOOK_AGAIN_S)
        return True
