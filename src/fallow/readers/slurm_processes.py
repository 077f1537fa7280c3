"""Find out which Slurm job a process belongs to, by what is seen on its node.

    its cgroup is that of a job                what Slurm has put it into; users cannot leave it
    a slurmstepd of root is above it           what Slurm has started
    its environment has the number of a job    what Slurm gave to the job's first processes, and they to theirs

The first that says something counts, and the node is believed from the same place. Users can change the environment
of their own processes, make cgroups in their own slice, and give a setuid program any name. So the last one proves
nothing about a process of another user, their slice says nothing at all, and a slurmstepd is one only by its program
file.
"""

import re
from enum import StrEnum
from itertools import chain, islice

from fallow.core.process import DEEPEST
from fallow.core.value import value
from fallow.readers.owners.traces import slurm_job
from fallow.readers.proc import Proc

_STEP_DAEMON = re.compile(r"slurmstepd: \[([0-9]{1,18})\.")
_STEP_PROGRAM = "slurmstepd"
_JOB, _NODE = "SLURM_JOB_ID", "SLURMD_NODENAME"


class Proof(StrEnum):
    """What shows that a process belongs to a job."""

    CGROUP = "its cgroup"
    STEP = "the slurmstepd above it"
    ENVIRONMENT = "its environment"


@value
class SlurmTrace:
    """The job of a process, and what shows it."""

    job: str
    proof: Proof
    node: str = ""
    """The node that the proof names: one host can be several nodes. Empty if it names none."""


def slurm_trace(proc: Proc, pid: int) -> SlurmTrace | None:
    """Return the job that a process belongs to; None if nothing shows one."""
    made = slurm_job(proc.cgroups(pid) or ())
    if made is not None:
        return SlurmTrace(made.number, Proof.CGROUP, made.node)
    step = _of_step(proc, pid)
    if step is not None:
        return step
    told = proc.variables(pid, _JOB, _NODE) or {}
    job = told.get(_JOB)
    return None if not job else SlurmTrace(job, Proof.ENVIRONMENT, told.get(_NODE, ""))


def may_be_of(proc: Proc, pid: int, job: str, user: int | None) -> bool:
    """Return whether a process may belong to a job of this user: quick, to be followed by `slurm_trace`.

    Of other users than that one and root, no variables are read: somebody may have thousands of processes with
    megabytes of them each, and their word proves nothing. None is a user who is not known.
    """
    made = slurm_job(proc.cgroups(pid) or ())
    if made is not None:
        return made.number == job
    if user is not None and proc.uid(pid) not in (user, 0):
        return False
    return (proc.variables(pid, _JOB) or {}).get(_JOB) == job


def _of_step(proc: Proc, pid: int) -> SlurmTrace | None:
    for each in chain((pid,), islice(proc.ancestors(pid), DEEPEST)):
        found = _STEP_DAEMON.match(" ".join(proc.words(each)))
        if found and proc.uid(each) == 0 and proc.program(each) == _STEP_PROGRAM:
            return SlurmTrace(found[1], Proof.STEP, (proc.variables(each, _NODE) or {}).get(_NODE, ""))
    return None
