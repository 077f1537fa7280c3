"""Decide who may read a command line: its owner and root. Others read only the name of the program.

Command lines hold passwords, paths and plans, and a machine may hide them from other users (hidepid). fallow often
runs as root, so it must not show what the kernel would hide. Sentences (the journal, the log, notices,
refusals) are read by many people: they name a process by its user, pid and program, and never quote its command.
"""

from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import MANY_JOBS, Interval, Party, in_order
from fallow.core.owner import Owner, OwnerKind
from fallow.core.reservations import Claim
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value

_NOT_SHOWN = Unknown("only its user and root may read it", asked=False)
_NOTEBOOK = OwnerKind.NOTEBOOK.value  # its name is only for its user and root
_NO_COMMAND = ("slurm:", "pod:", "container:", "service:")


@value
class Viewer:
    """A user who reads a status or history; without a name, an unknown user."""

    user: str | None = None
    everything: bool = False
    """True for root, and for every user if the owner of the machine shows command lines to all."""

    def may_read(self, owner: str | Unknown | None) -> bool:
        """Return whether this user may read command lines of that owner; those of an unknown owner only root may."""
        return self.everything or (self.user is not None and owner == self.user)


ANYBODY = Viewer()
EVERYTHING = Viewer(everything=True)


def is_for_all(job: str) -> bool:
    """Return whether everybody may read this name of a job: it is that of an owner, and of no notebook."""
    return " " not in job and job.startswith(_NO_COMMAND)


def seen_by(status: Status, viewer: Viewer) -> Status:
    """Return the status with as much of each command line as the viewer may read."""
    if viewer.everything:
        return status
    return replace(status, gpus=tuple(_gpu_seen_by(gpu, viewer) for gpu in status.gpus))


def interval_seen_by(interval: Interval, viewer: Viewer) -> Interval:
    """Return the interval with as much of each command as the viewer may read: stored history may have more."""
    if viewer.everything:
        return interval
    return replace(interval, parties=in_order(_party_seen_by(party, viewer) for party in interval.parties))


def _gpu_seen_by(gpu: GpuStatus, viewer: Viewer) -> GpuStatus:
    changes: dict[str, object] = {}
    if not isinstance(gpu.holders, Unknown) and gpu.holders:
        changes["holders"] = tuple(_holder_seen_by(holder, viewer) for holder in gpu.holders)
    for name in ("claim", "filler"):
        promise = getattr(gpu, name)
        if isinstance(promise, Claim) and promise.command and not viewer.may_read(promise.user):
            changes[name] = replace(promise, command=program_name(promise.command))
    return replace(gpu, **changes) if changes else gpu


def _holder_seen_by(holder: Holder, viewer: Viewer) -> Holder:
    if viewer.may_read(holder.user):
        return holder
    if isinstance(holder.owner, Owner) and holder.owner.kind is OwnerKind.NOTEBOOK:
        holder = replace(holder, owner=replace(holder.owner, name=_NOT_SHOWN))
    if isinstance(holder.command, Unknown) or not holder.command:
        return holder
    return replace(holder, command=program_name(holder.command))


def _party_seen_by(party: Party, viewer: Viewer) -> Party:
    if viewer.may_read(party.user) or party.job == MANY_JOBS or is_for_all(party.job):
        return party
    is_notebook = party.job.startswith(f"{_NOTEBOOK}:")
    return replace(party, job=_NOTEBOOK if is_notebook else program_name(party.job))
