"""A cluster as fallow sees it: the jobs of an engine, the GPUs that they hold, and what was read of these GPUs.

An engine (Slurm, Kubernetes) says which jobs hold which GPUs. A source of metrics (Prometheus) says what the GPUs did
since the last look. Both are looked at from one daemon, in a thread of its own, and all of this is values.
"""

from collections.abc import Mapping
from enum import StrEnum

from fallow.core.job import GpuKey, JobActivity
from fallow.core.reasons import Reason, WithReason
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value

JOB_LABELS = ("partition", "account", "qos", "namespace")
"""The labels of jobs by which rules choose them and hours are added up."""


class Engine(StrEnum):
    """What runs the jobs of the cluster."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"

    @property
    def proper_name(self) -> str:
        """Return its name, as it begins a sentence."""
        return self.value.capitalize()

    def remedy(self, environ: Mapping[str, str]) -> str:
        """Return what to do where it cannot be asked from here: name its file, or see if it runs."""
        variable, file, runs = _REMEDIES[self]
        return runs if environ.get(variable) else f"set {variable} to the {file} of your cluster"


_REMEDIES = {
    Engine.SLURM: ("SLURM_CONF", "slurm.conf", "is slurmctld running? try: scontrol ping"),
    Engine.KUBERNETES: ("KUBECONFIG", "kubeconfig", "does kubectl reach it? try: kubectl get nodes"),
}


@value
class NodeGpu:
    """A GPU that a job holds, by its node and its index there."""

    node: str
    index: int

    @property
    def count(self) -> int:
        """Return how many GPUs it is, as of the GPUs of a pod."""
        return 1

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


@value
class PodGpus:
    """The GPUs of one pod: how many it was given; the metrics say which."""

    namespace: str
    pod: str
    count: int
    uid: str = ""
    """What no other pod was or will be called: the kernel says it of its processes."""
    doubt: str = ""
    """Why it may hold other GPUs, too; one of `count` stands for them then."""
    node: str = ""
    """The node that the engine runs it on: GPUs of another are not its."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


GpuPlace = NodeGpu | PodGpus


@value
class GpuReading:
    """What one GPU of the cluster did since the last look."""

    key: GpuKey
    index: int | None
    """Its index in its node, where the metrics say it."""
    utilization: float | Unknown
    """The highest since the last look, a ratio. Unknown if there were gaps, or the series has ended."""
    memory_used_bytes: int | Unknown = NOT_ASKED
    processes: int | Unknown = NOT_ASKED
    """How many processes hold it; Unknown where the metrics do not say it."""
    pod: tuple[str, str] | None = None
    """The namespace and the name of the pod that holds it, where the metrics say it."""
    pod_uid: str = ""
    """The UID of the only pod with processes on it, where the metrics say that."""
    pods_in_doubt: tuple[tuple[str, str] | str, ...] = ()
    """Pods by name or UID, each of which holds it by some exporter and not by another, or beside others."""
    of_moments: bool = False
    """Whether the utilization is of moments: between them it may have been higher."""


@value
class Readings:
    """All GPUs of the cluster, from one look at the metrics."""

    at_s: float
    """When, by the monotonic clock."""
    covers_s: float
    """How long before that is covered."""
    gpus: tuple[GpuReading, ...] = ()
    trouble: Unknown | None = None
    """Why nothing could be read at all."""


@value
class ClusterJob:
    """A job of the engine that holds GPUs: what is warned and stopped as a whole."""

    engine: Engine
    id: str
    """What the engine calls it: `1234`, `1234_7`, or `Deployment/NAMESPACE/NAME`."""
    name: str
    user: str
    """Empty where the engine does not know it."""
    places: tuple[GpuPlace, ...]
    started_wall_s: float | Unknown
    interactive: bool = False
    """Whether a person sits before it: salloc, srun --pty, a notebook."""
    labels: Mapping[str, str] = {}
    """Partition, account, qos, namespace and node count, as far as the engine has them, for rules and reports."""
    opt_out: Reason | None = None
    """Why its people, or its namespace, said that it must be left alone."""
    idle_for_s: float | None = None
    """How long its people, or its namespace, said that it may be idle."""
    no_way: str | None = None
    """Why fallow cannot stop it, whatever a rule says; the job is judged and reported all the same."""
    own_grace_s: float = 0.0
    """How long its engine lets it end by itself, whatever the grace of a rule or a person is."""

    @property
    def key(self) -> str:
        """Return what identifies it from one look to the next, and in the journal: `slurm:1234`."""
        return f"{self.engine.value}:{self.id}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that its GPUs are in, as far as the engine says it."""
        return tuple(dict.fromkeys(place.node for place in self.places if place.node))

    @property
    def gpu_count(self) -> int:
        """Return how many GPUs it holds."""
        return sum(place.count for place in self.places)

    @property
    def subject(self) -> str:
        """Return what the journal and messages call it: all users read them, so the name of a job is not in it."""
        what = f"Slurm job {self.id}" if self.engine is Engine.SLURM else self.id
        return f"{self.user}'s {what}" if self.user else what


@value
class ClusterNode:
    """A node with GPUs, as the engine lists it."""

    name: str
    gpus: int
    labels: Mapping[str, str] = {}
    trouble: str | None = None
    """Why no job can begin there: drained, down, cordoned."""


@value
class GpuUse:
    """What one GPU of a job did since the last look."""

    place: GpuPlace
    activity: JobActivity
    reason: Reason
    key: GpuKey | None = None
    """Which GPU it is, where a reading was found for it."""


@value
class ClusterJobView(WithReason):
    """One job as the cluster's rules see it now."""

    job: ClusterJob
    activity: JobActivity
    reason: Reason
    uses: tuple[GpuUse, ...] = ()
    idle_s: float = 0.0
    """For how long all its GPUs were witnessed idle."""
    could_do_with: int | None = None
    """How many GPUs it has used at most since it was first seen, if that is fewer than it holds."""
    rule: str = ""
    """The rule that counts for it; empty if none covers it."""
    action: str = "nothing"
    """What follows if it goes on: report, warn, ask, kill or nothing."""
    in_s: float = 0.0
    refused: str | None = None
    """Why an action that was due is not done."""
    left_alone: str | None = None
    """The protection that keeps the rule from counting."""
    is_background: bool = False
    """Whether its partition is one whose jobs give way to all others: its GPUs are available."""


@value
class GpuSeconds:
    """For how long GPUs did what since the daemon watches the cluster: free, filled, busy, idle or unknown."""

    by_owner: Mapping[tuple[str, ...], float] = {}
    """By what they did, the `JOB_LABELS` of the job, and its user."""
    by_node: Mapping[tuple[str, ...], float] = {}
    """By what they did, and the node."""


@value
class ClusterBoard:
    """The cluster as the daemon saw it last. Other threads read it; it is replaced and never changed."""

    engine: Engine
    at_wall_s: float
    nodes: tuple[ClusterNode, ...] = ()
    jobs: tuple[ClusterJobView, ...] = ()
    pending: int | Unknown = NOT_ASKED
    """How many GPUs the jobs that wait have asked for."""
    troubles: tuple[str, ...] = ()
    """What could not be read: the controller, the metrics. While there is one, nothing is stopped."""
    acts: bool = False
    """Whether a rule may act at all, or all of them only report."""
    engine_answers: bool = True
    """Whether the engine listed its jobs at the last look; if not, jobs and nodes are those of an earlier one."""
    metrics_answer: bool = True
    """Whether the metrics could be read at the last look."""
    seconds: GpuSeconds = GpuSeconds()
