"""Wishes to wake parked jobs: who asks, which jobs are meant, and what came of it."""

from fallow.core.errors import NotPermitted
from fallow.core.parked import ParkedJob
from fallow.core.value import value
from fallow.engine.allocate.subjects import JobSubject, NamedOwner, matches, who_is
from fallow.engine.park.parking import Look, Parking


@value
class WakeWish:
    """The jobs that a user wants to wake."""

    subject: JobSubject
    user: str
    may_wake_all: bool
    """True for root and operators."""


@value
class Woken:
    """The jobs that are meant, each with why it cannot be woken now; None for one that is being woken."""

    jobs: tuple[tuple[ParkedJob, str | None], ...]


def begin_waking(parking: Parking, wish: WakeWish, look: Look) -> Woken:
    """Begin to wake the jobs that are meant; raise NotPermitted if all of them are others'."""
    return Woken(tuple(parking.wake(permitted(parking.jobs, wish), look)))


def permitted(jobs: tuple[ParkedJob, ...], wish: WakeWish) -> list[ParkedJob]:
    """Return those of the parked jobs that are meant and may be woken by this user."""
    meant = [job for job in jobs if matches(wish.subject, who_is(job.as_job))]
    own = [job for job in meant if wish.may_wake_all or job.user == wish.user]
    if meant and not own and not isinstance(wish.subject, NamedOwner):  # names are not everybody's to know
        raise NotPermitted(f"{meant[0].subject} is parked; only {meant[0].user}, root and operators may wake it")
    return own
