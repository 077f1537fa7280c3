"""What is promised of a GPU: claims, the line of launches that wait, soft reservations."""

from collections.abc import Mapping
from types import MappingProxyType

from fallow.core.units import shortened
from fallow.core.value import value


@value
class Claim:
    """A GPU promised to one launch: its first process, as far as that is known, and since when."""

    shared: bool
    pid: int | None = None
    user: str | None = None
    command: str | None = None
    """The name of its program; no more, since everybody may see it."""
    since_wall_s: float | None = None
    birth: int | None = None
    """With the pid, who the process is; a pid alone may be somebody else by now."""
    told: str | None = None
    """What people are told where who it is is not proven, and so is not in the others."""

    def __str__(self) -> str:
        kind = "shared" if self.shared else "claimed"
        if self.pid is None:
            return f"{kind} by {self.told or 'a process that we may not look into (root may: sudo fallow status)'}"
        who = f" by {self.user}" if self.user else ""
        what = f" for {shortened(self.command)}" if self.command else ""
        return f"{kind}{who}{what} (pid {self.pid})"


@value
class Waiter:
    """A launch that stands in line: when it came, and who it is. The user is the owner of what it wrote."""

    ticket: int
    """When it came, in nanoseconds since boot."""
    pid: int
    birth: int
    uid: int
    command: str


@value
class Reservations:
    """All that is promised of one GPU."""

    claim: Claim | None = None
    ahead: bool = False
    """A launch that came earlier waits for this GPU."""
    waiting: Waiter | None = None
    """Who that is."""
    in_passing: bool = False
    """That launch only tries once and will be gone in a moment."""
    in_line: bool = False
    """Somebody has locked a place in line, whether or not that counts."""
    reserved: bool = False
    """Somebody picked it moments ago: to be avoided while there are others."""
    filler: Claim | None = None
    """Somebody says that the work on it yields; that is to be checked."""
    in_the_way: int = 0
    """0: nobody has to leave first. 1: a filler has to. 2: that of another user, or nobody knows who."""


NOTHING_RESERVED = Reservations()
NOTHING_READ: Mapping[str, Reservations] = MappingProxyType({})
