"""Read from /proc whether a unit of systemd is one job, so that stopping the unit stops that job and nothing else."""

import re
from collections.abc import Callable

from fallow.core.owner import Owner, OwnerFacts
from fallow.core.unknown import Unknown
from fallow.readers.owners.traces import trace
from fallow.readers.proc import Proc

# Ending one of these would end more than the job: they serve everybody, or start unrelated jobs.
_MORE_THAN_A_JOB = re.compile(
    r"(systemd-.*|user@.*|dbus.*|sshd?|sshd?@.*|gdm.*|sddm|lightdm|display-manager|(serial-)?getty@.*|NetworkManager"
    r"|polkit|nvidia-.*|fallow.*|crond?|atd|docker|containerd|podman|crio|kubelet|k3s.*|slurm.*|nomad|supervisor.*"
    r"|jupyterhub|rstudio-server|code-server.*|gitlab-runner.*|actions\.runner\..*|buildkite-agent.*|jenkins.*"
    r"|airflow(-.*)?|celery(-.*)?|ray(-.*)?|dask(-.*)?)\.service"
)


def facts_of(
    proc: Proc, owner: Owner, pid: int, listed: Callable[[str], OwnerFacts | Unknown | None]
) -> OwnerFacts | Unknown | None:
    """Return what is known of the unit; None if it is more than this job, whose processes are then stopped.

    `listed` returns what `one_job` found in the unit's cgroup of that path, now or a moment ago.
    """
    if _MORE_THAN_A_JOB.fullmatch(owner.id):
        return None
    path = unit_cgroup(proc, pid, owner.id)
    return Unknown("the process has ended, or its cgroup cannot be read") if path is None else listed(path)


def one_job(proc: Proc, owner: Owner, path: str) -> OwnerFacts | None:
    """Return the processes in the unit's cgroup of that path; None if some of them are other work.

    Work on a terminal, a notebook and a container are other work, and so are processes of another user. It reads the
    cgroup of each process there is.
    """
    pids = frozenset(each for each in proc.pids() if unit_cgroup(proc, each, owner.id) == path)
    users = set[int | None]()
    for each in pids:
        user = proc.uid(each) if _is_its_own(proc, owner, each) else None
        if user is not None or proc.stat(each) is not None:  # one that has ended counts no more
            users.add(user)
    return None if None in users or len(users) > 1 else OwnerFacts(owner.id, pids=pids)


def _is_its_own(proc: Proc, owner: Owner, pid: int) -> bool:
    stat, traced = proc.stat(pid), trace(proc, pid)
    on_terminal = stat is not None and stat.has_terminal
    return not on_terminal and isinstance(traced, Owner) and traced.key == owner.key


def unit_cgroup(proc: Proc, pid: int, unit: str) -> str | None:
    """Return the path of the unit's cgroup, if the process is in it or in one below it."""
    for path in proc.cgroups(pid) or ():
        before, found, _ = f"{path}/".partition(f"/{unit}/")
        if found:
            return f"{before}/{unit}"
    return None
