"""Who has claimed a GPU, and who waits for it, as the kernel has it.

A label in a file that everybody may write counts only if the kernel's table of locks names its process as one that
took the claim, and that process is still the same. All else that is told of it comes from /proc. A lock that nobody
signed is somebody's who does not use fallow for it: root finds its process among the open files of all.
"""

from collections.abc import Callable

from fallow.actuators.claims import CLAIM_BYTE, CardFile
from fallow.core.errors import FallowError
from fallow.core.promise import Claim, Waiter
from fallow.core.units import program_name
from fallow.core.unknown import Unknown, known
from fallow.engine.world import World
from fallow.readers.proc import TICKS_PER_S, user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.readers.lock_table import LockTable

_TICK_S = 2 / TICKS_PER_S  # births are told in ticks
_NS = 1e9
_LOOKED_FOR_S = 30.0


def claim_on(world: World, card: CardFile) -> Claim | None:
    """Who has claimed a GPU; without a pid where that cannot be told. None if nobody has."""
    held = card.held()
    if held is None:
        return None
    from fallow.readers.lock_table import LockTable  # whoever only picks does not need it

    label = card.label()
    table = LockTable(world.proc)
    if label.pid is not None and label.pid in table.signers(card.inode):
        stat = world.proc.stat(label.pid)
        if stat is not None and stat.birth == label.birth:
            return _named(world, held.shared, label.pid, label.since_wall_s)
    pid = held.pid if held.pid is not None else _unsigned_holder(world, table, card.inode)
    return Claim(held.shared) if pid is None else _named(world, held.shared, pid, None)


def claim_of(world: World, uuid: str) -> Claim | Unknown | None:
    """The same by the UUID. A folder that cannot be read leaves it unknown."""
    try:
        fd = world.folder.peek(uuid)
    except FallowError as error:
        return Unknown(str(error))
    if fd is None:
        return None
    card = CardFile(fd)
    try:
        return claim_on(world, card)
    finally:
        card.close()


def _unsigned_holder(world: World, table: "LockTable", inode: int) -> int | None:
    """Who holds a claim without having signed it; looked for among all open files, and so not at every look."""
    now_s = world.clock.monotonic_s()
    found_s, pid, birth = world.unsigned_claims.get(inode, (-_LOOKED_FOR_S, None, None))
    stat = None if pid is None else world.proc.stat(pid)
    gone = pid is not None and (stat is None or stat.birth != birth)
    if gone or now_s - found_s >= _LOOKED_FOR_S:
        pid = table.holder(inode, CLAIM_BYTE)
        stat = None if pid is None else world.proc.stat(pid)
        world.unsigned_claims[inode] = (now_s, pid, None if stat is None else stat.birth)
    return pid


def _named(world: World, shared: bool, pid: int, since_wall_s: float | None) -> Claim:
    stat, user, command = world.proc.stat(pid), world.proc.user(pid), world.proc.command(pid)
    return Claim(
        shared,
        pid,
        None if isinstance(user, Unknown) else user,
        None if isinstance(command, Unknown) else program_name(command),
        since_wall_s,
        None if stat is None else stat.birth,
    )


def holder_in_words(world: World, fd: int, byte: int) -> str:
    """Whoever holds a lock on a byte of an open file, for people."""
    from fallow.readers.lock_table import LockTable

    pid = LockTable(world.proc).holder(CardFile(fd).inode, byte)
    if pid is None:
        return "a process that we may not look into"
    return f"pid {pid} ({known(world.proc.user(pid), '?')}: {program_name(known(world.proc.command(pid), '?'))})"


def waiter_in_words(waiter: Waiter) -> str:
    """A launch that stands in line, for people."""
    return f"pid {waiter.pid} ({user_name(waiter.uid)}: {program_name(waiter.command)})"


def stands(world: World) -> Callable[[Waiter], bool]:
    """A test of those who stand in line: a process of the label's owner that lives, and was born before it came."""
    proc = world.proc

    def is_true(waiter: Waiter) -> bool:
        stat = proc.stat(waiter.pid)
        if stat is None:
            return proc.stat(1) is None  # where others' processes are hidden, whose label it is has to do
        if stat.birth != waiter.birth or proc.uid(waiter.pid) != waiter.uid:
            return False
        born_s, came_s = waiter.birth / TICKS_PER_S - _TICK_S, waiter.ticket / _NS
        return born_s <= came_s or born_s - _asleep_s(world) <= came_s

    return is_true


def _asleep_s(world: World) -> float:
    """How long the machine was suspended since boot: births count that time, places in line do not."""
    uptime_s = world.proc.uptime_s()
    return 0.0 if uptime_s is None else max(0.0, uptime_s - world.clock.monotonic_s())
