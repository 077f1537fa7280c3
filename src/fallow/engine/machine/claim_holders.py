"""Say which process has claimed a GPU, and which wait for it.

Who has claimed it is what the note in the claim file says: a process that lives. User and program come from /proc.
Any user can write a note, so before fallow acts on a claim it asks the kernel (readers/claim_owner).
"""

from collections.abc import Callable
from itertools import pairwise

from fallow.actuators.claims.claims import ClaimFile
from fallow.core.errors import FallowError
from fallow.core.reservations import Claim, Waiter
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.readers.proc import TICKS_PER_S, user_name

_TICK_S = 2 / TICKS_PER_S  # births are counted in ticks
_NS = 1e9
_FIRST_WORDS = 6  # python -P -m fallow run, or fallow run
_STOPPED = "Tt"  # by a signal, and by a debugger
_ENDED = "ZX"


def claim_on(world: World, file: ClaimFile) -> Claim | None:
    """Return the claim on a GPU; None if there is none.

    It has no pid if its note names no process that lives here.
    """
    claim = file.claim()
    if claim is None:
        return None
    note = file.label()
    stat = None if note.pid is None else world.proc.stat(note.pid)
    if stat is None or stat.birth != note.birth:
        return claim
    user, command = world.proc.user(stat.pid), world.proc.command(stat.pid)
    return Claim(
        claim.shared,
        stat.pid,
        None if isinstance(user, Unknown) else user,
        None if isinstance(command, Unknown) else launched(command),
        note.since_wall_s,
        stat.birth,
    )


def claim_of(world: World, uuid: str) -> Claim | Unknown | None:
    """Return the claim on the GPU of this UUID; Unknown if the claim folder cannot be read."""
    try:
        fd = world.folder.peek(uuid)
    except FallowError as error:
        return Unknown(str(error))
    if fd is None:
        return None
    file = ClaimFile(fd)
    try:
        return claim_on(world, file)
    finally:
        file.close()


def launched(command: str) -> str:
    """Return the name of a program; a `fallow run` that has not become its command yet is called by that."""
    launch, dashes, rest = command.partition(" -- ")
    words = [program_name(word) for word in launch.split(" ")[:_FIRST_WORDS]]
    is_launch = bool(dashes) and ("fallow", "run") in pairwise(words)
    return program_name(rest if is_launch else command)


def waiter_in_words(waiter: Waiter) -> str:
    """Return a waiting launch in words."""
    return f"pid {waiter.pid} ({user_name(waiter.uid)}: {program_name(waiter.command)})"


def stands(world: World) -> Callable[[Waiter], bool]:
    """Return a test whether a label in the queue is true: its owner's process lives and is older than its ticket."""
    proc = world.proc

    def is_true(waiter: Waiter) -> bool:
        stat = proc.stat(waiter.pid)
        if stat is None:
            return proc.stat(1) is None  # if /proc hides the processes of others, the owner of the label must suffice
        if stat.birth != waiter.birth or proc.uid(waiter.pid) != waiter.uid or stat.state in _ENDED:
            return False
        born_s, came_s = waiter.birth / TICKS_PER_S - _TICK_S, waiter.ticket / _NS
        return born_s <= came_s or born_s - _asleep_s(world) <= came_s

    return is_true


def lives(world: World) -> Callable[[Claim], bool]:
    """Return a test whether the process that a label names lives, as far as it can be seen from here."""

    def is_alive(label: Claim) -> bool:
        stat = None if label.pid is None else world.proc.stat(label.pid)
        return stat is not None and label.birth in (None, stat.birth) and stat.state not in _ENDED

    return is_alive


def awake(world: World) -> Callable[[Waiter], bool]:
    """Return a test whether a waiting launch runs: a stopped one takes no GPU, and would keep all others from it."""

    def is_awake(waiter: Waiter) -> bool:
        stat = world.proc.stat(waiter.pid)
        return stat is None or stat.state not in _STOPPED

    return is_awake


def _asleep_s(world: World) -> float:
    """Return how long the machine was suspended since boot: births count that time, tickets do not."""
    uptime_s = world.proc.uptime_s()
    return 0.0 if uptime_s is None else max(0.0, uptime_s - world.clock.monotonic_s())
