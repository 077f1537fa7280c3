"""An interval: what one GPU did over some witnessed time, and who held it.

Times are whole milliseconds since the epoch, so that sums are exact. The holders are a set of parties, each a user
and a job. The job of a process is the first of these that is known:

    slurm:1234        its owner: a Slurm job, a pod, a container, a service, a notebook
    python train.py   its command, in one line of at most 80 letters
"""

from collections.abc import Iterable
from functools import lru_cache

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, people_on
from fallow.core.owner import Owner
from fallow.core.reservations import Claim
from fallow.core.units import printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value

_LONGEST_JOB = 80


@value
class Party:
    """Who held the GPU: a user and a job."""

    user: str
    job: str


NOBODY = Party("-", "-")
"""Nobody held the GPU."""
SOMEBODY = Party("?", "?")
"""It is unknown who held the GPU."""
MANY_JOBS = "(many small jobs)"
"""The name for many small jobs of a user."""


@value
class Card:
    """The names of a GPU: the driver's, and the one for people."""

    uuid: str
    label: str
    name: str
    host: str = ""
    simulated: bool = False


@value
class Interval:
    """One activity of one GPU, held by the same parties throughout.

    If it was merged from several intervals, only `witnessed_ms` of the time between its ends belongs to it.
    """

    uuid: str
    begin_ms: int
    end_ms: int
    witnessed_ms: int
    activity: Activity
    parties: tuple[Party, ...]
    """In order, each once; never empty."""
    energy_mj: int = 0
    """What the GPU drew in the part of it that was metered, in millijoules."""
    metered_ms: int = 0
    """For how much of the witnessed time that is known: where the counter is missing or began again, it is not."""


def party_of(holder: Holder) -> Party:
    """Return the party of a process."""
    return _party(holder.user, holder.owner, holder.command)


@lru_cache(maxsize=256)  # a daemon asks for the same ones every second
def _party(user: str | Unknown, owner: Owner | Unknown, command: str | Unknown) -> Party:
    if isinstance(owner, Owner) and owner.is_lasting:
        job = f"{owner.kind}:{printable(owner.short_name)}"
    else:
        job = SOMEBODY.job if isinstance(command, Unknown) else shortened(command, _LONGEST_JOB)
    return Party(SOMEBODY.user if isinstance(user, Unknown) else printable(user), job)


def parties_of(gpu: GpuStatus) -> tuple[Party, ...]:
    """Return the parties of a GPU: its holders, without fillers; else its claim; else an unknown one."""
    if gpu.activity in AVAILABLE:
        return (NOBODY,)
    people = people_on(gpu)
    if people:
        return in_order(party_of(holder) for holder in people)
    return (
        (_claimer(gpu.claim),)
        if isinstance(gpu.claim, Claim) and not isinstance(gpu.holders, Unknown)
        else (SOMEBODY,)
    )


def _claimer(claim: Claim) -> Party:
    job = SOMEBODY.job if claim.command is None else shortened(claim.command, _LONGEST_JOB)
    return Party(SOMEBODY.user if claim.user is None else printable(claim.user), job)


def without_jobs(parties: Iterable[Party]) -> tuple[Party, ...]:
    """Return the same users, with a name for many small jobs."""
    return in_order(Party(one.user, one.job if one in (NOBODY, SOMEBODY) else MANY_JOBS) for one in parties)


def in_order(parties: Iterable[Party]) -> tuple[Party, ...]:
    """Return each party once, in an order that does not depend on who came first."""
    found = tuple(parties)
    return found if len(found) < 2 else tuple(sorted(set(found), key=lambda party: (party.user, party.job)))
