"""Find the owner of a process by what the kernel says: its cgroup, its command line and its ancestors.

Users choose names of their own cgroups, processes and files. So a pod and a Slurm job count only by a path whose
every name, from the root on, is one that the kubelet or Slurm makes where no user can make any; a container only if
its engine names a process in the very same cgroup (see containers.py), a system unit only outside of users' slices, a
unit of a user only in that user's own slice, and a notebook only if its server is an ancestor of the kernel and the
same user's.

No file of a user is touched here: one on a file system of theirs could keep whoever opens it waiting.
"""

import re
from itertools import chain, islice

from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.process import DEEPEST
from fallow.core.unknown import Unknown
from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.readers.proc import Proc

_CONTAINER = r"[0-9a-f]{64}"
# A daemon in a container is shown the cgroups outside of its own by `..`; no cgroup can have that name.
_TOP = r"^/(?:\.\./)*"
# Version 1 has slurm/uid_N/job_N, version 2 a scope below a slice; where one host is several nodes, both name it.
_SLURM_JOB = (
    rf"{_TOP}(?:slurm(?:_[^/]+)?/(?:uid_[0-9]+/)?|(?:(?!user\.slice/)[^/]+\.slice/)*(?:[^/]+_)?slurmstepd\.scope/)"
    r"job_([0-9]{1,18})(?:/|$)"
)
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
# The kubelet's own folders, as its two drivers name them, or those below the service of its runtime.
_POD = (
    rf"{_TOP}(?:system\.slice/(?:containerd|crio|k3s|k3s-agent|rke2-server|rke2-agent)\.service/)?"
    r"(?:kube(?:let|pods)(?:-[a-z]+)*(?:\.slice)?/)*(?:(?:besteffort|burstable)/)?"
    rf"(?:kube(?:let|pods)(?:-[a-z]+)*-)?pod({_UID})(?![^/.:])"
)
# Names that systemd gives to units: anything else that a user named a cgroup could be an option or a pattern.
_UNIT = r"([A-Za-z0-9_][A-Za-z0-9:_.@\\-]{0,250}\.service)(?:/|$)"
_USER_UNIT = r"^/user\.slice/user-([0-9]{1,10})\.slice/user@\1\.service/(?:[^/]+\.slice/)*" + _UNIT
_SYSTEM_UNIT = r"^/(?!user\.slice/)(?:[^/]+\.slice/)+" + _UNIT
_KERNEL_FILE = r"(.*/)?kernel-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.json"
_TMUX, _SSH, _VS_CODE = ("tmux: server",), ("sshd", "sshd-session"), ("node", "code", "code-server")


def trace(proc: "Proc", pid: int) -> Owner | Unknown:
    """Return the owner of a process, by its traces alone; its name may still have to be asked for."""
    cgroups, uid = proc.cgroups(pid), proc.uid(pid)
    if cgroups is None:
        return Unknown("the process has ended, or its cgroup cannot be read")
    pod = _match(_POD, cgroups)
    if pod:
        uid_of_pod = pod[1].replace("_", "-")
        return Owner(OwnerKind.POD, uid_of_pod, uid_of_pod)
    job = _match(_SLURM_JOB, cgroups)
    if job:
        return Owner(OwnerKind.SLURM, job[1], job[1])
    container = _match(_CONTAINER, cgroups)
    if container:
        return Owner(OwnerKind.CONTAINER, container[0], cgroup=_with_name(container.string, container.end()))
    theirs = None if uid is None else _kernel(proc, pid, uid) or _unit(cgroups, uid)
    return theirs or _session(proc, pid) or NO_OWNER


def container_cgroup(proc: "Proc", pid: int, container: str) -> str | None:
    """Return the path of the cgroup of a container that the process is in: what no other container has."""
    for path in proc.cgroups(pid) or ():
        at = path.find(container)
        if at >= 0:
            return _with_name(path, at + len(container))
    return None


@value
class Kernel:
    """A Jupyter kernel: its process, its id, and the folder of its connection file."""

    pid: int
    id: str
    folder: str


def kernel_above(proc: "Proc", pid: int, uid: int) -> Kernel | None:
    """Return the kernel that a process is, or that started it, of the same user; None if there is none."""
    for each in chain((pid,), islice(proc.ancestors(pid), DEEPEST)):
        if proc.uid(each) != uid:
            break
        for word in proc.words(each):
            is_like_it = word.endswith(".json") and "kernel-" in word
            found = re.fullmatch(_KERNEL_FILE, word.removeprefix("--f=")) if is_like_it else None
            if found:
                return Kernel(each, found[2], found[1] or "")
    return None


def _kernel(proc: "Proc", pid: int, uid: int) -> Owner | None:
    kernel = kernel_above(proc, pid, uid)
    if kernel is None:
        return None
    parent = next(proc.ancestors(kernel.pid), None)
    if parent is not None and not proc.called(parent).isdisjoint(_VS_CODE):
        return Owner(OwnerKind.KERNEL, kernel.id, "VS Code", uid)
    return Owner(OwnerKind.NOTEBOOK, kernel.id, manager=uid)


def _unit(cgroups: tuple[str, ...], uid: int) -> Owner | None:
    for path in cgroups:
        user, system = re.match(_USER_UNIT, path), re.match(_SYSTEM_UNIT, path)
        if user and int(user[1]) == uid:
            return Owner(OwnerKind.SERVICE, user[2], user[2], uid, path[: user.end(2)])
        if system:
            return Owner(OwnerKind.SERVICE, system[1], system[1], cgroup=path[: system.end(1)])
    return None


def _session(proc: "Proc", pid: int) -> Owner | None:
    for parent in islice(proc.ancestors(pid), DEEPEST):
        names = proc.called(parent)
        if not names.isdisjoint(_TMUX):
            return Owner(OwnerKind.TMUX, str(parent), "tmux")
        if not names.isdisjoint(_SSH):
            return Owner(OwnerKind.SSH, str(parent), "ssh")
    return None


def _with_name(path: str, end: int) -> str:
    """Return the path up to the end of the name that goes on at this place."""
    slash = path.find("/", end)
    return path if slash < 0 else path[:slash]


def _match(pattern: str, cgroups: tuple[str, ...]) -> re.Match[str] | None:
    return next((found for path in cgroups if (found := re.search(pattern, path))), None)
