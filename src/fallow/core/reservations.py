"""What reserves a GPU: claims, the queue of launches that wait, soft reservations."""

from collections.abc import Mapping
from types import MappingProxyType

from fallow.core.units import shortened
from fallow.core.value import value


@value
class Claim:
    """A GPU reserved for one launch: its first process, if that is known, and since when."""

    shared: bool
    pid: int | None = None
    user: str | None = None
    command: str | None = None
    """The name of its program; no more, since all users may see it."""
    since_wall_s: float | None = None
    birth: int | None = None
    """With the pid, the identity of the process; a pid alone may belong to another one by now."""
    yields: bool = False
    """True for a pick that waits: it wants the GPU, and launches that claim it go first."""

    def __str__(self) -> str:
        kind = "shared" if self.shared else "claimed"
        if self.pid is None:
            return f"{kind} by a process that is not seen here"
        who = f" by {self.user}" if self.user else ""
        what = f" for {shortened(self.command)}" if self.command else ""
        return f"{kind}{who}{what} (pid {self.pid})"


@value
class Waiter:
    """A launch that waits: when it came, and who it is. The user is the owner of its label."""

    ticket: int
    """When it came, in nanoseconds since boot."""
    pid: int
    birth: int
    uid: int
    command: str
    yields: bool = False
    """True for a pick, which keeps nobody from the GPU."""


@value
class Reservations:
    """All that is reserved of one GPU."""

    claim: Claim | None = None
    ahead: bool = False
    """A launch that came earlier waits for this GPU."""
    waiting: Waiter | None = None
    """The launch that is ahead, if it waits."""
    in_passing: bool = False
    """The launch that is ahead only tries once and will be gone in a moment."""
    in_line: bool = False
    """There is a lock in the queue, whether or not it counts."""
    reserved: bool = False
    """A pick took it moments ago: it is avoided while there are others."""
    filler: Claim | None = None
    """A mark says that a filler is on it; that must be checked."""
    in_the_way: int = 0
    """0: nothing has to leave first. 1: a filler has to. 2: that of another user, or an unknown one."""


NOTHING_RESERVED = Reservations()
JUST_PICKED = Reservations(reserved=True)
NOTHING_READ: Mapping[str, Reservations] = MappingProxyType({})
