"""The cluster's metrics: how many GPUs and jobs do what, whose GPUs are idle, and what could not be read.

Users choose names and accounts, so the series are limited: the rest is added up as `other`.
"""

from collections import Counter
from collections.abc import Iterator

from fallow.core.cluster import JOB_LABELS, ClusterBoard
from fallow.core.cluster_view import ClusterView, GpuState, cluster_view, idle_by
from fallow.core.unknown import Unknown
from fallow.core.visibility import ANYBODY

_MOST_SERIES = 500
_LABELS = ("partition", "namespace", "account")
_DOING = (GpuState.FILLED, GpuState.BUSY, GpuState.IDLE, GpuState.UNKNOWN)

Samples = list[tuple[tuple[str, ...], float | None]]
Family = tuple[str, str, Samples, tuple[str, ...]]
"""The name, the meaning, the samples and the labels of one metric."""


def cluster_samples(board: ClusterBoard) -> Iterator[Family]:
    """Yield each metric of the cluster; what is not known has no sample."""
    view, engine = cluster_view(board, ANYBODY), board.engine.value
    only = ("engine",)
    at: Samples = [((engine,), board.at_wall_s)]
    yield "fallow_cluster_last_look_time_seconds", "When the cluster was last looked at, since the epoch.", at, only
    troubles: Samples = [((engine,), float(len(board.troubles)))]
    yield "fallow_cluster_troubles", "What could not be read at the last look.", troubles, only
    up: Samples = [
        ((engine, "engine"), float(board.engine_answers)),
        ((engine, "metrics"), float(board.metrics_answer)),
    ]
    what = "Whether the engine, and the metrics, answered at the last look."
    yield "fallow_cluster_source_up", what, up, ("engine", "source")
    gpus: Samples = [((engine, state), _known(number)) for state, number in view.counts.items()]
    yield "fallow_cluster_gpus", "GPUs of the cluster, by what they do.", gpus, ("engine", "state")
    pending: Samples = [((engine,), _known(board.pending))]
    yield "fallow_cluster_pending_gpus", "GPUs that the jobs that wait have asked for.", pending, only
    doing = Counter(job.activity for job in view.jobs)
    if isinstance(view.counts["idle"], Unknown):
        jobs: Samples = [((engine, activity.value), float(number)) for activity, number in doing.items()]
    else:
        jobs = [((engine, activity.value), float(doing[activity])) for activity in _DOING]
    yield "fallow_cluster_jobs", "Jobs that hold GPUs, by what they do.", jobs, ("engine", "activity")
    labels = ("engine", *_LABELS, "user")
    yield "fallow_cluster_idle_gpus", "GPUs that are held and idle, by whose they are.", _idle(view), labels
    out = float(sum(node.trouble is not None for node in view.nodes))
    nodes: Samples = [((engine,), out)] if view.nodes and board.engine_answers else []
    yield "fallow_cluster_nodes_out", "Nodes with GPUs at which no job can begin.", nodes, only


def cluster_counters(board: ClusterBoard) -> Iterator[Family]:
    """Yield the seconds that were counted: `fallow report --cluster` asks Prometheus for them."""
    what = "For how long GPUs of the cluster were filled, busy, idle or unknown, by whose jobs held them."
    by_owner: Samples = list(board.seconds.by_owner.items())
    yield "fallow_cluster_gpu_seconds_total", what, by_owner, ("state", *JOB_LABELS, "user")
    what = "For how long GPUs of each node were free, filled, busy, idle or unknown."
    by_node: Samples = list(board.seconds.by_node.items())
    yield "fallow_cluster_node_gpu_seconds_total", what, by_node, ("state", "node")


def _idle(view: ClusterView) -> Samples:
    told = (job for job in view.jobs if not job.all_unknown and not job.is_filled)
    found = idle_by(told, _LABELS).most_common()
    samples: Samples = [((view.engine.value, *words), float(number)) for words, number in found[:_MOST_SERIES]]
    rest = sum(number for _, number in found[_MOST_SERIES:])
    if len(found) > _MOST_SERIES:
        samples.append(((view.engine.value, *["other"] * (len(_LABELS) + 1)), float(rest)))
    return samples


def _known(number: int | Unknown) -> float | None:
    return None if isinstance(number, Unknown) else float(number)
