"""How people name a part of a cluster: a job of Slurm, what Kubernetes runs, a node, a partition, an account.

slurm:1234   slurm:1234_7                 a job of Slurm or all tasks of an array, a task of an array
deployment:NAMESPACE/NAME                 and statefulset, replicaset, job, pod, notebook, raycluster, rayjob …
kubernetes:Kind/NAMESPACE/NAME            the same, as the journal has it
node:NAME   partition:NAME   account:NAME   qos:NAME   namespace:NAME   pod:NAMESPACE/NAME
"""

import re

from fallow.core import kubernetes
from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.errors import WrongUsage
from fallow.core.protections import CLUSTER_ENGINES, CLUSTER_PARTS, ClusterPart, OneClusterJob, OneUser
from fallow.core.units import printable

KINDS = {kind.name.lower(): kind.name for kind in kubernetes.KINDS.values() if kind.name != "Pod"}
"""What runs pods, by the word before the colon; a pod is a part."""
_SLURM = re.compile(r"[0-9]{1,10}([_+][0-9]{1,7})?", re.ASCII)
_NAMED = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,199}", re.ASCII)
_LONGEST = 200
KIND_WORDS = (*CLUSTER_ENGINES, *KINDS, *CLUSTER_PARTS)
"""What a name of a part of a cluster begins with, before the colon."""


def subject_of(key: str) -> str:
    """Return what commands call a job that has this key: `deployment:NAMESPACE/NAME`, else the key itself."""
    engine, _, rest = key.partition(":")
    kind, slash, named = rest.partition("/")
    if engine != "kubernetes" or not slash:
        return key
    if kind == "Pod":
        return f"pod:{named}"
    return f"{kind.lower()}:{named}" if KINDS.get(kind.lower()) == kind else key


def names_cluster(text: str) -> bool:
    """Return whether a word names a part of a cluster; `notebook:x` without a namespace is one of this machine."""
    kind, colon, rest = text.partition(":")
    return bool(colon) and kind in KIND_WORDS and not (kind == "notebook" and "/" not in rest)


def cluster_target(text: str) -> OneClusterJob | ClusterPart:
    """Return the job, or the part of a cluster, that a word names; raise WrongUsage if it names neither.

    A pod may be a job of its own, or belong to another; it is a part.
    """
    kind, _, rest = text.partition(":")
    if len(text) <= _LONGEST:
        if kind in CLUSTER_PARTS and (_NAMED if kind == "pod" else _PART).fullmatch(rest):
            return ClusterPart(kind, rest)
        if kind == "slurm" and _SLURM.fullmatch(rest):
            return OneClusterJob(text)
        if kind in KINDS and _NAMED.fullmatch(rest):
            return OneClusterJob(f"kubernetes:{KINDS[kind]}/{rest}")
        owner, _, named = rest.partition("/")
        if kind == "kubernetes" and _KIND.fullmatch(owner) and _NAMED.fullmatch(named):
            return OneClusterJob(text)
    if kind == "job" and _SLURM.fullmatch(rest):
        raise WrongUsage(f"{printable(text)!r} has no namespace", f"for a job of Slurm write slurm:{rest}")
    raise WrongUsage(f"{printable(text[:_LONGEST])!r} names nothing of a cluster", f"write it as {_example(kind)}")


def concerns(target: OneClusterJob | ClusterPart | OneUser, job: ClusterJob) -> bool:
    """Return whether a job is meant."""
    match target:
        case OneClusterJob(key=key):
            return names_job(key, job)
        case OneUser(name=name):
            return job.user == name
        case ClusterPart(kind="node", name=name):
            return name in job.nodes
        case ClusterPart(kind="pod", name=name):
            places = (f"{place.namespace}/{place.pod}" for place in job.places if isinstance(place, PodGpus))
            return job.key == f"kubernetes:Pod/{name}" or name in places
        case ClusterPart(kind=kind, name=name):
            return job.labels.get(kind) == name


def names_job(key: str, job: ClusterJob) -> bool:
    """Return whether the key names the job, or the array or the whole that it is a part of."""
    mine, meant = (job.key.lower(), key.lower()) if job.engine is Engine.KUBERNETES else (job.key, key)
    return mine == meant or (job.engine is Engine.SLURM and mine.startswith((f"{meant}_", f"{meant}+")))


def _example(kind: str) -> str:
    if kind == "slurm":
        return "slurm:1234 or slurm:1234_7"
    if kind == "kubernetes":
        return "deployment:NAMESPACE/NAME"
    return f"{kind}:NAMESPACE/NAME" if kind in KINDS or kind == "pod" else f"{kind}:NAME"
