"""Picks GPUs for a request: those that are allowed, idle and not claimed. A pick leaves a soft reservation."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from fallow.actuators.claims.claims import note_pick
from fallow.actuators.claims.folder import FileRefused
from fallow.core.gpu import Gpu
from fallow.engine.allocate.search import Request, Search
from fallow.engine.machine.claims_seen import our_note
from fallow.engine.machine.world import World


def pick(
    world: World, request: Request, say: Callable[[str], None] | None = None, *, reserve: bool = True
) -> tuple[Gpu, ...]:
    """Return idle GPUs. With `reserve` they are softly reserved, so that the next pick gives others."""

    def take(gpus: Sequence[Gpu]) -> bool:
        for gpu in gpus if reserve else ():
            try:
                _reserve(world, str(gpu.uuid))
            except FileRefused as error:
                search.refuse(gpu, error)
                return False
        return True

    search = Search(world, request, say or (lambda _: None), take, note=partial(our_note, world, "fallow pick"))
    return search.find()


def _reserve(world: World, uuid: str) -> None:
    fd = world.folder.open(uuid)
    try:
        note_pick(fd, world.clock.monotonic_s())
    finally:
        os.close(fd)
