"""Judge a GPU by its readings together with its claim and its filler.

    other processes than fillers are on it, or may be     what it did (see activity)
    no such process is on it, and it is claimed           IDLE, held by the owner of the claim
    no such process, and the claim cannot be read         UNKNOWN
    only a filler is on it                                FILLED: it can be taken now
    no process is on it                                   FREE

A claim keeps others out as a process does, so a claimed GPU without a process is idle. A filler that has not started
yet, or is about to leave, changes nothing: the GPU is free.
"""

from fallow.core.activity import Activity, Finding, judge, unseen_memory_bytes
from fallow.core.gpu import Gpu
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value


@value
class Around:
    """What is known of a GPU besides its readings."""

    claim: Claim | Unknown | None = None
    fillers: frozenset[int] = frozenset()
    """Its holders that are fillers."""
    gone: frozenset[int] = frozenset()
    """Its holders that have ended since the reading."""

    @property
    def ignored(self) -> frozenset[int]:
        """Return the holders that keep no other job from the GPU."""
        return self.fillers | self.gone


def standing(gpu: Gpu, around: Around) -> Finding:
    """Return the activity that this one reading shows, given its claim and its filler, and why."""
    finding = judge(gpu)
    if gpu.trouble is not None or isinstance(gpu.holders, Unknown) or isinstance(gpu.memory, Unknown):
        return finding
    ignored = around.ignored
    if any(holder.pid not in ignored for holder in gpu.holders):
        return finding
    if not gpu.holders and finding.activity is not Activity.FREE:
        return finding  # a process is there that cannot be seen
    if gpu.holders and unseen_memory_bytes(gpu) != 0:
        return finding  # as much as the filler holds, and more
    if isinstance(around.claim, Claim):
        return Finding(Activity.IDLE, Reason("claimed", claim=str(around.claim)))
    if isinstance(around.claim, Unknown):
        return Finding(Activity.UNKNOWN, Reason("claim_unknown"))
    filler = filler_of(gpu, around.fillers)
    if filler is not None:
        return Finding(Activity.FILLED, Reason("filled", program=program_name(filler.command or "work")))
    return finding


def filler_of(gpu: Gpu, fillers: frozenset[int]) -> Claim | None:
    """Return the filler on a GPU, by its first process; None if no holder is one."""
    if isinstance(gpu.holders, Unknown):
        return None
    first = next((holder for holder in gpu.holders if holder.pid in fillers), None)
    if first is None:
        return None
    user = None if isinstance(first.user, Unknown) else first.user
    return Claim(False, first.pid, user, None if isinstance(first.command, Unknown) else first.command)
