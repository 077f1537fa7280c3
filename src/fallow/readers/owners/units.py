"""Read from /proc whether a unit of systemd is one job, so that stopping the unit stops that job and nothing else."""

import re
from collections.abc import Callable

from fallow.core.owner import Owner, OwnerFacts
from fallow.core.unknown import Unknown
from fallow.readers.proc import Proc

# Ending one of these would end more than the job: they serve everybody, or start unrelated jobs.
_MORE_THAN_A_JOB = re.compile(
    r"(systemd-.*|user@.*|dbus.*|sshd?|sshd?@.*|gdm.*|sddm|lightdm|display-manager|(serial-)?getty@.*|NetworkManager"
    r"|polkit|nvidia-.*|fallow.*|crond?|atd|docker|containerd|podman|crio|kubelet|k3s.*|slurm.*|nomad|supervisor.*"
    r"|jupyterhub|rstudio-server|code-server.*|gitlab-runner.*|actions\.runner\..*|buildkite-agent.*|jenkins.*"
    r"|airflow(-.*)?|celery(-.*)?|ray(-.*)?|dask(-.*)?)\.service"
)


def facts_of(
    proc: Proc, owner: Owner, pid: int, listed: Callable[[str], frozenset[int] | Unknown] | None = None
) -> OwnerFacts | Unknown | None:
    """Return what is known of the unit; None if it is more than this job, whose processes are then stopped.

    `listed` returns the processes in its cgroup; without it they are searched among all.
    """
    if _MORE_THAN_A_JOB.fullmatch(owner.id):
        return None
    uid, path = proc.uid(pid), unit_cgroup(proc, pid, owner.id)
    if uid is None or path is None:
        return Unknown("the process has ended, or its cgroup cannot be read")
    pids = members(proc, owner.id, path) if listed is None else listed(path)
    if isinstance(pids, Unknown):
        return pids
    # A process with two users at once is not known to be this one's; one that has ended counts no more.
    if any(proc.uid(each) != uid and proc.stat(each) is not None for each in pids):
        return None
    return OwnerFacts(owner.id, pids=pids)


def members(proc: Proc, unit: str, path: str) -> frozenset[int]:
    """Return all processes in the unit's cgroup of that path. It reads the cgroup of each process there is."""
    return frozenset(each for each in proc.pids() if unit_cgroup(proc, each, unit) == path)


def unit_cgroup(proc: Proc, pid: int, unit: str) -> str | None:
    """Return the path of the unit's cgroup, if the process is in it or in one below it."""
    for path in proc.cgroups(pid) or ():
        before, found, _ = f"{path}/".partition(f"/{unit}/")
        if found:
            return f"{before}/{unit}"
    return None
