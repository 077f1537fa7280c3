"""What a GPU is to people: what it did, together with who is there to be made way for.

    people are on it, or it cannot be told                what it did (see activity)
    nobody of people is on it, and it is claimed          FALLOW, held by the claimer
    the same, and whether it is claimed cannot be told    UNKNOWN
    nothing but a filler is on it                         FILLED: whoever comes can have it
    nobody is on it                                       FREE

A claim keeps others out as a process does, so one that nobody uses is idleness of whoever claimed. A filler that has
not yet come, or is about to go, leaves the card as free as it was.
"""

from fallow.core.activity import (
    Activity,
    Finding,
    judge,
    unseen_memory_bytes,
)
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value


@value
class Around:
    """What is known of a GPU beside its readings."""

    claim: Claim | Unknown | None = None
    fillers: frozenset[int] = frozenset()
    """Those of its holders that are known to make way."""
    gone: frozenset[int] = frozenset()
    """Those of its holders that have ended since the look."""

    @property
    def nobody(self) -> frozenset[int]:
        """Those of its holders whom nobody need mind."""
        return self.fillers | self.gone


def standing(gpu: Gpu, around: Around) -> Finding:
    """What this one look says of the GPU, and of its claim and its filler."""
    finding = judge(gpu)
    if gpu.trouble is not None or isinstance(gpu.holders, Unknown) or isinstance(gpu.memory, Unknown):
        return finding
    if any(holder.pid not in around.nobody for holder in gpu.holders):
        return finding
    if not gpu.holders and finding.activity is not Activity.FREE:
        return finding  # somebody is there who is not to be seen
    if gpu.holders and unseen_memory_bytes(gpu) != 0:
        return finding  # as much as the filler holds, and more
    if isinstance(around.claim, Claim):
        return Finding(Activity.IDLE, f"{around.claim}, and nothing of that is on the card")
    if isinstance(around.claim, Unknown):
        return Finding(Activity.UNKNOWN, "whether somebody has claimed it cannot be told")
    filler = filler_of(gpu, around.fillers)
    if filler is not None:
        what = program_name(filler.command or "work")
        return Finding(Activity.FILLED, f"filled with {what}, which makes way for whoever comes")
    return finding


def filler_of(gpu: Gpu, fillers: frozenset[int]) -> Claim | None:
    """The filler on a GPU, as its first process has it; None if none of the holders is one."""
    if isinstance(gpu.holders, Unknown):
        return None
    first = next((holder for holder in gpu.holders if holder.pid in fillers), None)
    if first is None:
        return None
    user = None if isinstance(first.user, Unknown) else first.user
    return Claim(False, first.pid, user, None if isinstance(first.command, Unknown) else first.command)
