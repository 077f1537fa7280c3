"""Keep the GPUs of a job free while it is woken: they are claimed, so that fillers leave and nobody else comes.

The claim ends when the job is back. It is taken in the thread that wakes the job, with a claim folder of its own. All
GPUs are claimed at once or none, so that nothing is kept from others while one of them is waited for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fallow.actuators.claims.claims import Held, take
from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.engine.machine.claims_seen import our_note
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import is_marked

_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.05


@contextmanager
def kept_free(world: World, job: ParkedJob) -> Iterator[None]:
    """Claim the GPUs of a job, and wait until their fillers have left, a minute at most.

    Raise FallowError if they cannot be claimed within a minute.
    """
    folder = ClaimFolder(folder_path(world.environ))
    held: list[Held] = []
    try:
        if not _within_a_minute(world, lambda: _claim_all(world, folder, job.uuids, held)):
            raise FallowError(f"{', '.join(job.uuids)} cannot be kept free for it: somebody has claimed it")
        _within_a_minute(world, lambda: not any(is_marked(folder, uuid) for uuid in job.uuids))
        yield
    finally:
        _end(held)
        folder.close()


def _claim_all(world: World, folder: ClaimFolder, uuids: Sequence[str], held: list[Held]) -> bool:
    for uuid in uuids:
        one = take(folder, uuid, our_note(world, "fallow wake"))
        if one is None:
            _end(held)
            return False
        held.append(one)
    return True


def _end(held: list[Held]) -> None:
    while held:
        held.pop().end()


def _within_a_minute(world: World, done: Callable[[], bool]) -> bool:
    until_s = world.clock.monotonic_s() + _WITHIN_S
    while not done():
        if world.clock.monotonic_s() >= until_s:
            return False
        world.clock.sleep(_LOOK_AGAIN_S)
    return True
