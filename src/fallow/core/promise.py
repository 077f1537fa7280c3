"""What is promised of a GPU: claims, the line of launches that wait, soft reservations."""

from fallow.core.units import shortened
from fallow.core.value import value


@value
class Claim:
    """A GPU promised to one launch. The label is what the launch wrote of itself; the lock is the truth."""

    shared: bool
    pid: int | None = None
    user: str | None = None
    command: str | None = None
    since_wall_s: float | None = None

    def __str__(self) -> str:
        kind = "shared" if self.shared else "claimed"
        who = f" by {self.user}" if self.user else ""
        what = f" for {shortened(self.command)}" if self.command else ""
        pid = f" (pid {self.pid})" if self.pid else ""
        return f"{kind}{who}{what}{pid}"


@value
class Promises:
    """All that is promised of one GPU."""

    claim: Claim | None = None
    ahead: bool = False
    """A launch that came earlier waits for this GPU."""
    waiting: str | None = None
    """Who that is, if they said so."""
    in_passing: bool = False
    """That launch only tries once and will be gone in a moment."""
    reserved: bool = False
    """Somebody picked it moments ago: to be avoided while there are others."""
    filler: Claim | None = None
    """Work is on it that yields to whoever comes."""


NOTHING_PROMISED = Promises()
