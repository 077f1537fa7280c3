"""What reserves GPUs, as everybody may see it: who has claimed one, who waits for it, and which filler is on it.

The notes in the claim folder name processes; those that live are shown, with their users from /proc. Any user can
write a note, so before fallow acts on a claim it asks the kernel (readers/claim_owner).
"""

import os
from collections.abc import Sequence

from fallow.actuators.claims.claims import claim_on, filler_on, is_picked
from fallow.actuators.claims.waitline import LAST, waiting
from fallow.core.errors import FallowError
from fallow.core.reservations import NOTHING_RESERVED, Claim, Note, Reservations, Waiter
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name
from fallow.readers.proc import Stat

_STOPPED = "Tt"  # by a signal, and by a debugger


def our_note(world: World, program: str) -> Note:
    """Return what our claim, mark or place says."""
    stat = world.proc.stat(os.getpid())
    return Note(os.getpid(), None if stat is None else stat.birth, program, world.clock.wall_s())


def reservations_of(world: World, uuid: str, line: Sequence[Waiter] = ()) -> Reservations:
    """Return what reserves a GPU, but for launches that wait and are not in `line`. Wakes nobody.

    The claim is as its note says. Raise FileRefused if the GPU's file is unfit.
    """
    ahead = next((waiter for waiter in line if uuid in waiter.gpus), None)
    fd = world.folder.peek(uuid)
    if fd is None:
        return NOTHING_RESERVED if ahead is None else Reservations(ahead=ahead)
    try:
        return Reservations(claim_on(fd), ahead, is_picked(fd, world.clock.monotonic_s()), filler_on(fd))
    finally:
        os.close(fd)


def seen_reservations(world: World, uuid: str) -> Reservations:
    """Return what reserves a GPU, with the process of its claim; raise FileRefused if the GPU's file is unfit."""
    found = reservations_of(world, uuid)
    return found if found.claim is None else replace(found, claim=with_its_process(world, found.claim))


def claim_of(world: World, uuid: str) -> Claim | Unknown | None:
    """Return the claim on a GPU with its process; Unknown if the claim folder cannot be read."""
    try:
        return seen_reservations(world, uuid).claim
    except FallowError as error:
        return Unknown(str(error))


def with_its_process(world: World, claim: Claim) -> Claim:
    """Return a claim with the user of its process; without a process, if its note names none that lives here."""
    stat = _process(world, claim.pid, claim.birth)
    if stat is None:
        return Claim(claim.shared)
    user = world.proc.user(stat.pid)
    return claim if isinstance(user, Unknown) else replace(claim, user=user)


def line(world: World, before: str = LAST) -> list[Waiter]:
    """Return the launches that wait and came before a ticket, first come first.

    One that is stopped is left out: it takes no GPU, and would keep all others from it.
    """
    return [waiter for waiter in waiting(world.folder, before) if not _is_stopped(world, waiter.note)]


def waiter_in_words(waiter: Waiter) -> str:
    """Return a waiting launch in words."""
    return f"pid {waiter.note.pid} ({user_name(waiter.uid)}: {waiter.note.program})"


def _is_stopped(world: World, note: Note) -> bool:
    stat = _process(world, note.pid, note.birth)
    return stat is not None and stat.state in _STOPPED


def _process(world: World, pid: int | None, birth: int | None) -> Stat | None:
    """Return the process that a note names, if that very process lives and is seen from here."""
    stat = None if pid is None else world.proc.stat(pid)
    return stat if stat is not None and stat.birth == birth else None
