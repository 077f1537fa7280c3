"""Find out which process has claimed a GPU, and which wait for it, from what the kernel shows.

The process that is named may be warned, charged and killed for it. So a claim belongs to a process only if that
process has the lock's open file. A label does not prove that, since every user can write one, nor does the pid of a
lock, which may be of another process by now. User and command come from /proc. If the process cannot be shown, the
claim is of an unknown process: it keeps others from the GPU, and no user is charged for it.
"""

import os
from collections.abc import Callable
from itertools import pairwise

from fallow.actuators.claims.claims import CLAIM_BYTE, ClaimFile
from fallow.core.errors import FallowError
from fallow.core.process import Process
from fallow.core.reservations import Claim, Waiter
from fallow.core.units import program_name, shortened
from fallow.core.unknown import Unknown, known
from fallow.engine.machine.world import World
from fallow.readers.proc import TICKS_PER_S, user_name

_TICK_S = 2 / TICKS_PER_S  # births are counted in ticks
_NS = 1e9
_FIRST_WORDS = 6  # python -P -m fallow run, or fallow run
_STOPPED = "Tt"  # by a signal, and by a debugger
_ENDED = "ZX"
_NOT_FOUND = "a process that was not found yet, or that we may not look into"
_CHANGING = "processes that come and go"
_TRIES = 10
_HIDDEN = "a hidden process: none that can be seen has it open (docs/concepts/claims.md says how to end that)"


def claim_on(world: World, file: ClaimFile) -> Claim | None:
    """Return the claim on a GPU, without a pid if that is not proven; None if there is none."""
    held = file.held()
    for _ in range(_TRIES):
        if held is None:
            return None
        label = file.label()
        named = None if label.pid is None or label.birth is None else Process(label.pid, label.birth)
        answer = world.lock_holders.holder(file.fd, CLAIM_BYTE, named)
        if answer.holder is None:
            return Claim(held.shared, unproven=_HIDDEN if answer.nobody else _signed(world, file.identity[1], named))
        since_wall_s = label.since_wall_s if answer.holder == named else None
        claim = _named(world, held.shared, answer.holder, since_wall_s)
        if claim.user is not None and claim.command is not None:
            return claim
        if world.lock_holders.holder(file.fd, CLAIM_BYTE, named).holder == answer.holder:
            return claim  # it lives, and /proc does not say more of it
        held = file.held()
    return None if held is None else Claim(held.shared, unproven=_CHANGING)


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


def _signed(world: World, inode: int, named: Process | None) -> str | None:
    """Return who has claimed it according to its label, if the process signed it and only root could prove more."""
    if os.geteuid() == 0:
        return _NOT_FOUND
    stat = None if named is None else world.proc.stat(named.pid)
    if named is None or stat is None or stat.birth != named.birth:
        return None
    from fallow.readers.lock_table import LockTable  # `pick` does not need it

    if world.proc.uid(named.pid) == os.geteuid() or named.pid not in LockTable(world.proc).signers(inode):
        return None
    user, command = world.proc.user(named.pid), world.proc.command(named.pid)
    if isinstance(user, Unknown) or isinstance(command, Unknown):
        return None
    return f"{user} for {shortened(program_name(command))} (pid {named.pid}), if its label is true"


def _named(world: World, shared: bool, process: Process, since_wall_s: float | None) -> Claim:
    user, command = world.proc.user(process.pid), world.proc.command(process.pid)
    return Claim(
        shared,
        process.pid,
        None if isinstance(user, Unknown) else user,
        None if isinstance(command, Unknown) else launched(command),
        since_wall_s,
        process.birth,
    )


def launched(command: str) -> str:
    """Return the name of a program; a `fallow run` that has not become its command yet is called by that."""
    launch, dashes, rest = command.partition(" -- ")
    words = [program_name(word) for word in launch.split(" ")[:_FIRST_WORDS]]
    is_launch = bool(dashes) and ("fallow", "run") in pairwise(words)
    return program_name(rest if is_launch else command)


def holder_in_words(world: World, fd: int, byte: int) -> str:
    """Return which process holds a lock on a byte of an open file, in words."""
    world.look_patiently()
    answer = world.lock_holders.holder(fd, byte)
    if answer.holder is None:
        return _HIDDEN if answer.nobody else "a process that we may not look into"
    pid = answer.holder.pid
    return f"pid {pid} ({known(world.proc.user(pid), '?')}: {program_name(known(world.proc.command(pid), '?'))})"


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
