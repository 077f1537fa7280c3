"""Count for how long the GPUs of a cluster did what, by whose jobs and by node: Prometheus keeps it, for reports."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from fallow.core.cluster import JOB_LABELS, ClusterJob, ClusterNode, GpuSeconds
from fallow.core.unknown import Unknown
from fallow.core.witnessed_time import witnessed_s
from fallow.engine.cluster.job_state import ClusterJobState

_MOST_OWNERS = 500
_OTHERS = ("other",) * (len(JOB_LABELS) + 1)


class GpuSecondCounter:
    """Adds up the seconds of all looks. Used by the cluster's thread alone."""

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._at_s: float | None = None
        self._owners: set[tuple[str, ...]] = set()
        self._by_owner: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._by_node: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def take(self, at_s: float, states: Iterable[ClusterJobState], nodes: Sequence[ClusterNode]) -> None:
        """Add one look; a gap counts zero."""
        passed_s = witnessed_s(self._at_s, at_s, self._longest_gap_s)
        self._at_s = at_s
        held: defaultdict[str, int] = defaultdict(int)
        for state in states:
            owner = self._owner(state.job)
            for did, node, count in _gpus(state):
                held[node] += count
                self._by_owner[did, *owner] += passed_s * count
                self._by_node[did, node] += passed_s * count
        for each in nodes:
            self._by_node["free", each.name] += passed_s * max(0, each.gpus - held[each.name])

    def counted(self) -> GpuSeconds:
        """Return what was counted so far."""
        return GpuSeconds(dict(self._by_owner), dict(self._by_node))

    def _owner(self, job: ClusterJob) -> tuple[str, ...]:
        """Return the labels of a job; users choose them, so after so many the others are one."""
        owner = (*(job.labels.get(label, "") for label in JOB_LABELS), job.user)
        if owner not in self._owners and len(self._owners) >= _MOST_OWNERS:
            return _OTHERS
        self._owners.add(owner)
        return owner


def _gpus(state: ClusterJobState) -> Iterator[tuple[str, str, int]]:
    """Yield what GPUs of a job did, in which node, and how many they are."""
    if state.is_background or isinstance(state.use, Unknown):
        did = "filled" if state.is_background else "unknown"
        yield from ((did, place.node, place.count) for place in state.job.places)
    else:
        yield from ((one.activity.value, one.place.node, 1) for one in state.use.uses)
