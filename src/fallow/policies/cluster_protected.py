"""Find the protections that may cover a job of a cluster, without comparing each job with each protection."""

from collections.abc import Iterable

from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.protections import CLUSTER_PARTS, ClusterPart, Everything, OneGpu, OneUser, Protection

_LABELS = tuple(kind for kind in CLUSTER_PARTS if kind not in ("node", "pod"))


class ProtectionIndex:
    """The protections of one look, by what they name."""

    def __init__(self, protections: Iterable[Protection]) -> None:
        self._of_all: list[Protection] = []
        self._of_users: list[Protection] = []
        self._named: dict[str, list[Protection]] = {}
        self._kinds: set[str] = set()
        for protection in protections:
            target = protection.target
            if isinstance(target, Everything):
                self._of_all.append(protection)
                continue
            if isinstance(target, OneUser):
                self._of_users.append(protection)
            self._kinds.add(target.kind if isinstance(target, ClusterPart) else type(target).__name__)
            self._named.setdefault(str(target).lower(), []).append(protection)

    @property
    def names_gpus(self) -> bool:
        """Return whether a protection names a GPU, so that the UUIDs of a job's GPUs are needed."""
        return OneGpu.__name__ in self._kinds

    def candidates(self, job: ClusterJob, uuids: frozenset[str]) -> list[Protection]:
        """Return all protections that may cover the job, and some that do not."""
        if not self._named:
            return self._of_all
        found = list(self._of_all)
        for name in self._names(job, uuids):
            found += self._named.get(name.lower(), ())
        if not job.user and job.engine is Engine.SLURM:
            found += self._of_users  # any of them may be its user
        return found

    def _names(self, job: ClusterJob, uuids: frozenset[str]) -> Iterable[str]:
        key = job.key
        yield key
        if job.engine is Engine.SLURM:
            for end in "_+":
                yield key.partition(end)[0]
        if job.user:
            yield f"user:{job.user}"
        for kind in _LABELS:
            if kind in self._kinds and kind in job.labels:
                yield f"{kind}:{job.labels[kind]}"
        if "node" in self._kinds:
            yield from (f"node:{node}" for node in job.nodes)
        if "pod" in self._kinds:
            yield from (f"pod:{place}" for place in job.places if isinstance(place, PodGpus))
        if self.names_gpus:
            yield from (f"gpu:{uuid}" for uuid in uuids)
