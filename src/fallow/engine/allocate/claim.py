"""Claims the GPUs of a request: all of them or none."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from fallow.actuators.claims.claims import Held, make_room, take
from fallow.actuators.claims.folder import FileRefused, to_give_it_to_root
from fallow.core.gpu import Gpu
from fallow.core.value import value
from fallow.engine.allocate.search import Request, Search
from fallow.engine.machine.claims_seen import our_note
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import wait_until_clear
from fallow.readers.accounts import user_name


@value
class Claimed:
    """GPUs with the claims on them."""

    gpus: tuple[Gpu, ...]
    claims: tuple[Held, ...]


def claim(world: World, request: Request, *, program: str, say: Callable[[str], None] | None = None) -> Claimed:
    """Claim GPUs and return them; wait in line if the request says so.

    `program` is shown to others as what the GPUs are claimed for: a name, not a command line.
    """
    say = say or (lambda _: None)
    note = partial(our_note, world, program)
    held: list[Held] = []

    def take_all(gpus: Sequence[Gpu]) -> bool:
        for gpu in gpus:
            try:
                one = take(world.folder, str(gpu.uuid), note(), shared=request.wanted.shared)
            except FileRefused as error:
                search.refuse(gpu, error)
                one = None
            if one is None:
                give_back()
                return False
            held.append(one)
        return True

    def give_back() -> None:
        while held:
            held.pop().end()

    make_room()
    _warn_of_folder_owner(world, say)
    search = Search(world, request, say, take_all, give_back, note=note)
    try:
        gpus = search.find()
        if not request.wanted.shared:
            wait_until_clear(world, gpus, request.wanted.max_processes, say)
    except BaseException:
        give_back()
        raise
    return Claimed(gpus, tuple(held))


def _warn_of_folder_owner(world: World, say: Callable[[str], None]) -> None:
    """Warn that the owner of the claim folder, if another user, can remove claims. Root does not claim in it."""
    uid = world.folder.owner_uid
    if os.geteuid() != 0 and uid not in (0, os.geteuid()):
        can = f"{world.folder.path} is {user_name(uid)}'s, who can take claims away"
        say(f"the claim folder {can}; {to_give_it_to_root(world.folder.path)}")
