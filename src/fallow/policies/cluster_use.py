"""Find what a job of a cluster did on its GPUs since the last look.

    BUSY      one of its GPUs ran something
    UNKNOWN   none is known to have run anything, and of one it is not known that it ran nothing
    IDLE      each of them is known to have run less than the threshold

A GPU without a reading, with a gap in its series, or with a number that makes no sense, is unknown. So are all GPUs
that an engine names by their index in a node, if that node has others by the metrics than by the engine, or MIG
instances: Slurm counts these, and what it leaves out, in an order that the metrics do not have. Where several
readings fit one place (MIG instances of a card, two exporters), all of them count: work of any is work of the job.
A utilization of moments alone shows work, and never idleness.
A pod holds no GPU of another node than its own: a GPU there that the metrics call its is unknown.
An idle job is told apart further: nothing of it may be on its GPUs at all, no process or no memory.
"""

from collections.abc import Iterable, Sequence
from math import isfinite

from fallow.core.cluster import ClusterJob, ClusterNode, GpuPlace, GpuReading, GpuUse, NodeGpu, PodGpus, Readings
from fallow.core.job import IDLE_BELOW, JobActivity
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value

EMPTY_BELOW_BYTES = 100 * 2**20
"""Below this nothing is on a GPU: a CUDA context takes more, and what the driver keeps for itself takes less."""
_RATIO_SLACK = 1.01  # some exporters round a whole up
NO_PROCESS, NO_MEMORY, ALL_EMPTY = "no_process_there", "no_memory_there", "held_without_process"
_OF_SEVERAL = Unknown("by the metrics several pods hold it")
_BETWEEN = (
    "DCGM_FI_DEV_GPU_UTIL shows only moments; what it did between them is in DCGM_FI_PROF_GR_ENGINE_ACTIVE of"
    " dcgm-exporter, and in the metrics of fallow"
)
_ELSEWHERE = Unknown("by the metrics it is in another node than its pod")
_EMPTY_KINDS = frozenset({NO_PROCESS, NO_MEMORY})


@value
class JobUse:
    """What a job did on all its GPUs."""

    activity: JobActivity
    reason: Reason
    uses: tuple[GpuUse, ...]
    readings: tuple[GpuReading, ...] = ()
    """The readings of its GPUs, as far as there are any."""

    @property
    def may_be_used(self) -> int:
        """Return how many of its GPUs worked, or may have."""
        return sum(use.activity is not JobActivity.IDLE for use in self.uses)


class ReadingIndex:
    """The readings of one look, by the places that jobs hold; made once a look."""

    def __init__(self, readings: Readings, nodes: Iterable[ClusterNode] = ()) -> None:
        """`nodes` says how many GPUs the engine has where: indices are compared only where that is the same."""
        self.trouble = readings.trouble
        self._counts = {node.name: node.gpus for node in nodes}
        self._nodes = {name.lower().partition(".")[0] for name in self._counts}
        """The first parts of their names."""
        self._by_host: dict[str, dict[int | None, list[GpuReading]]] = {}
        """By the name of a host, and the index there."""
        self._by_node: dict[str, dict[int | None, list[GpuReading]]] = {}
        """The same, by the name that the engine has for the host."""
        self._doubts: dict[str, str | None] = {}
        self._by_pod: dict[tuple[str, str] | str, list[GpuReading]] = {}
        """By namespace and name, and by UID."""
        self._hosts: dict[str, str | None] = {}
        """The whole name of a host by its first part; None if several have it."""
        for reading in readings.gpus:
            host = reading.key.host.lower()
            there = self._by_host.get(host)
            if there is None:
                there = self._by_host[host] = {}
                short = host.partition(".")[0]
                self._hosts[short] = host if self._hosts.get(short, host) == host else None
            there.setdefault(reading.index, []).append(reading)
            if reading.pod is not None:
                self._by_pod.setdefault(reading.pod, []).append(reading)
            if reading.pod_uid:
                self._by_pod.setdefault(reading.pod_uid, []).append(reading)
            for pod in reading.pods_in_doubt:
                self._by_pod.setdefault(pod, []).append(replace(reading, utilization=_OF_SEVERAL))

    def of_gpu(self, place: NodeGpu) -> Sequence[GpuReading]:
        """Return the readings of one GPU of a node; the metrics may name its host with or without a domain."""
        there = self._by_node.get(place.node)
        if there is None:
            host = self._host(place.node)
            there = self._by_node[place.node] = {} if host is None else self._by_host[host]
        return there.get(place.index, ())

    def doubt_about(self, node: str) -> str | None:
        """Return why the engine's indices of a node may not be those of the metrics; None if they are the same."""
        if node not in self._doubts:
            self._doubts[node] = self._doubt_about(node)
        return self._doubts[node]

    def _doubt_about(self, node: str) -> str | None:
        host, count = self._host(node), self._counts.get(node)
        if host is None:
            return None  # its GPUs have no reading at all
        indices = set(self._by_host[host])
        if None in indices:
            return f"the metrics of {node} have MIG instances, or GPUs without an index"
        if count is not None and indices != set(range(count)):
            return f"the engine has {count} GPUs on {node}, and the metrics have {len(indices)} of other indices"
        return None

    def _host(self, node: str) -> str | None:
        """Return what the metrics call a node; None if they do not have it, or have several of that name."""
        name = node.lower()
        if name in self._by_host:
            return name
        host = self._hosts.get(name.partition(".")[0])
        # Two whole names that differ are two hosts, whatever their first parts are.
        return None if host is None or ("." in name and "." in host) else host

    def of_pod(self, place: PodGpus) -> Sequence[GpuReading]:
        """Return the readings of the GPUs of a pod."""
        named = self._by_pod.get((place.namespace, place.pod), [])
        by_uid = self._by_pod.get(place.uid, ()) if place.uid else ()
        found = [*named, *(each for each in by_uid if not any(each is other for other in named))]
        return [replace(each, utilization=_ELSEWHERE) if self._is_elsewhere(place, each) else each for each in found]

    def _is_elsewhere(self, place: PodGpus, reading: GpuReading) -> bool:
        """Return whether a reading is of another node than the pod's; an exporter may call its host otherwise."""
        host, node = reading.key.host.lower(), place.node.lower()
        first = host.partition(".")[0]
        if not node or host == node or first not in self._nodes:
            return False
        return first != node.partition(".")[0] or ("." in host and "." in node)


def job_use(job: ClusterJob, index: ReadingIndex, idle_below: float = IDLE_BELOW) -> JobUse:
    """Return what the job did on its GPUs. In any doubt that is unknown, never idle."""
    uses: list[GpuUse] = []
    readings: list[GpuReading] = []
    for place in job.places:
        if isinstance(place, NodeGpu):
            found, doubt = index.of_gpu(place), index.doubt_about(place.node)
            known = None if doubt else _together([_use(place, each, idle_below) for each in found])
            uses.append(known or _missing(place, index, 0, 1, doubt))
        else:
            found = index.of_pod(place)
            by_gpu: dict[str, list[GpuUse]] = {}  # exporters in pods may each call the host otherwise
            for each in found:
                by_gpu.setdefault(each.key.uuid, []).append(_use(place, each, idle_below))
            uses.extend(use for several in by_gpu.values() if (use := _together(several)) is not None)
            missing = max(place.count - len(by_gpu), 1 if place.doubt else 0)
            uses.extend([_missing(place, index, len(by_gpu), place.count)] * missing)
        readings.extend(found)
    activity, reason = _whole(uses)
    return JobUse(activity, reason, tuple(uses), tuple(readings))


def could_do_with(job: ClusterJob, most_used: int) -> int | None:
    """Return how many GPUs would have been enough; None if it may have used all of them, or used none."""
    return most_used if 0 < most_used < job.gpu_count else None


def _load(reading: GpuReading) -> float | Unknown:
    load = reading.utilization
    if isinstance(load, Unknown):
        return load
    if not isfinite(load) or not 0 <= load <= _RATIO_SLACK:
        return Unknown(f"a utilization of {load:g} makes no sense")
    return load


def _use(place: GpuPlace, reading: GpuReading, idle_below: float) -> GpuUse:
    load, gpu = _load(reading), str(place)
    if isinstance(load, Unknown):
        return GpuUse(place, JobActivity.UNKNOWN, Reason("load_unknown", gpu=gpu, why=load.why), reading.key)
    if load >= idle_below:
        return GpuUse(place, JobActivity.BUSY, Reason("job_ran", gpu=gpu, whose="the card", load=load), reading.key)
    if reading.of_moments:
        return GpuUse(place, JobActivity.UNKNOWN, Reason("load_unknown", gpu=gpu, why=_BETWEEN), reading.key)
    used, processes = reading.memory_used_bytes, reading.processes
    if not isinstance(processes, Unknown) and processes == 0:
        reason = Reason(NO_PROCESS, gpu=gpu)
    elif isinstance(processes, Unknown) and not isinstance(used, Unknown) and 0 <= used < EMPTY_BELOW_BYTES:
        reason = Reason(NO_MEMORY, gpu=gpu, used_bytes=used)
    else:
        reason = Reason("job_idle", gpu=gpu, whose="the card", load=load, below=idle_below)
    return GpuUse(place, JobActivity.IDLE, reason, reading.key)


def _missing(place: GpuPlace, index: ReadingIndex, found: int, count: int, doubt: str | None = None) -> GpuUse:
    if index.trouble is not None:
        return GpuUse(place, JobActivity.UNKNOWN, Reason("gpu_unknown", why=index.trouble.why))
    if doubt is not None:
        return GpuUse(place, JobActivity.UNKNOWN, Reason("place_unclear", gpu=str(place), why=doubt))
    if isinstance(place, PodGpus) and place.doubt:
        return GpuUse(place, JobActivity.UNKNOWN, Reason("may_hold_more", gpu=str(place), why=place.doubt))
    if found:
        return GpuUse(
            place, JobActivity.UNKNOWN, Reason("some_not_in_metrics", gpu=str(place), found=found, count=count)
        )
    return GpuUse(place, JobActivity.UNKNOWN, Reason("not_in_metrics", gpu=str(place)))


def _together(uses: Sequence[GpuUse]) -> GpuUse | None:
    """Return what several readings of one GPU say together; None if there are none."""
    if len(uses) == 1:
        return uses[0]
    for activity in (JobActivity.BUSY, JobActivity.UNKNOWN):
        for use in uses:
            if use.activity is activity:
                return use
    # All idle: one that has something on it speaks for all of them.
    return next((use for use in uses if use.reason.kind not in _EMPTY_KINDS), uses[0] if uses else None)


def _whole(uses: Sequence[GpuUse]) -> tuple[JobActivity, Reason]:
    for activity in (JobActivity.BUSY, JobActivity.UNKNOWN, JobActivity.IDLE):
        reasons = [use.reason for use in uses if use.activity is activity]
        if not reasons:
            continue
        if activity is JobActivity.IDLE and all(reason.kind in _EMPTY_KINDS for reason in reasons):
            return activity, Reason(ALL_EMPTY, gpus=len(reasons), found=reasons[0])
        more = len(reasons) - 1
        return activity, Reason("and_more", found=reasons[0], more=more) if more else reasons[0]
    return JobActivity.UNKNOWN, Reason("no_gpu")
