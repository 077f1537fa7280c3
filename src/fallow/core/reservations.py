"""What reserves a GPU: a claim, launches that wait in line, a pick, a filler."""

from enum import IntEnum

from fallow.core.units import shortened
from fallow.core.value import value


@value
class Note:
    """What a launch or a filler has written about itself. Any user can write it, so it proves nothing."""

    pid: int | None = None
    birth: int | None = None
    """With the pid, the identity of the process; a pid alone may belong to another one by now."""
    program: str | None = None
    """The name of its program; no more, since all users may see it."""
    since_wall_s: float | None = None

    def __str__(self) -> str:
        return f"{self.program or 'a program'} (pid {self.pid})" if self.pid else "a process that is not seen here"


@value
class Claim:
    """A GPU that is claimed now: by whom, if that is known, and since when."""

    shared: bool
    pid: int | None = None
    user: str | None = None
    command: str | None = None
    """The name of its program; no more, since all users may see it."""
    since_wall_s: float | None = None
    birth: int | None = None

    def __str__(self) -> str:
        kind = "shared" if self.shared else "claimed"
        if self.pid is None:
            return f"{kind} by a process that is not seen here"
        who = f" by {self.user}" if self.user else ""
        what = f" for {shortened(self.command)}" if self.command else ""
        return f"{kind}{who}{what} (pid {self.pid})"


@value
class Waiter:
    """A launch that waits in line. Its user and its place are the kernel's word, the rest is its own."""

    ticket: str
    """The name of its file. A ticket that sorts before another one came earlier."""
    came_s: float
    uid: int
    note: Note
    gpus: frozenset[str]
    """The UUIDs of the GPUs that would do."""
    is_pick: bool = False
    """A pick that waits keeps nobody from a GPU: launches that claim go first."""


class Leaves(IntEnum):
    """Which filler has to leave a GPU before a job can use it; fewer scruples sort first."""

    NONE = 0
    OURS = 1
    OTHERS = 2


@value
class Reservations:
    """All that is reserved of one GPU."""

    claim: Claim | None = None
    ahead: Waiter | None = None
    """A launch that came earlier and waits for this GPU."""
    picked: bool = False
    """A pick took it moments ago: it is avoided while there are others."""
    filler: Note | None = None
    """A mark says that a filler is on it; that must be checked."""
    leaves: Leaves = Leaves.NONE


NOTHING_RESERVED = Reservations()
