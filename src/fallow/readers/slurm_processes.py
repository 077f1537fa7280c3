"""Find out which Slurm job a process belongs to, by what is seen on its node.

    its cgroup is that of a job                what Slurm has put it into; users cannot leave it
    a slurmstepd of root is above it           what Slurm has started
    its environment has the number of a job    what Slurm gave to the job's first processes, and they to theirs

The first that says something counts. Users can change the environment of their own processes and make cgroups in
their own slice. So the last one proves nothing about a process of another user, and their slice says nothing at all.
"""

import re
from enum import StrEnum
from itertools import chain, islice

from fallow.core.process import DEEPEST
from fallow.core.value import value
from fallow.readers.owners.traces import slurm_job
from fallow.readers.proc import Proc

_STEP_DAEMON = re.compile(r"slurmstepd: \[([0-9]{1,18})\.")
_OF_USERS = "/user.slice/"
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
    """The node that its environment names: one host can be several nodes."""


def slurm_trace(proc: Proc, pid: int) -> SlurmTrace | None:
    """Return the job that a process belongs to; None if nothing shows one."""
    told = proc.variables(pid, _JOB, _NODE) or {}
    node = told.get(_NODE, "")
    job = _of_cgroup(proc, pid)
    if job is not None:
        return SlurmTrace(job, Proof.CGROUP, node)
    job = _of_step(proc, pid)
    if job is not None:
        return SlurmTrace(job, Proof.STEP, node)
    job = told.get(_JOB)
    return None if not job else SlurmTrace(job, Proof.ENVIRONMENT, node)


def may_be_of(proc: Proc, pid: int, job: str) -> bool:
    """Return whether a process may belong to a job: quick, to be followed by `slurm_trace`."""
    return _of_cgroup(proc, pid) == job or (proc.variables(pid, _JOB) or {}).get(_JOB) == job


def _of_cgroup(proc: Proc, pid: int) -> str | None:
    paths = (path for path in proc.cgroups(pid) or () if not path.startswith(_OF_USERS))
    return next((job for path in paths if (job := slurm_job(path)) is not None), None)


def _of_step(proc: Proc, pid: int) -> str | None:
    for each in chain((pid,), islice(proc.ancestors(pid), DEEPEST)):
        found = _STEP_DAEMON.match(" ".join(proc.words(each)))
        if found and proc.uid(each) == 0:
            return found[1]
    return None
