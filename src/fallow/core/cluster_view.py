"""The cluster as page, API, metrics and command line show it: jobs and nodes in a line each, and what is available.

    free      nobody holds it, and jobs can begin there
    filled    only a background job holds it, which gives way: it is as available as a free one
    busy      a job holds it and used it since the last look
    idle      a job holds it and did not: it is wasted
    unknown   a job holds it, and what it did could not be read
    out       nobody but a background job holds it, and no job can begin there: its node is drained, down or cordoned

The name of a job is shown as a command line is: to its user and to root, or to all where the owner of the machine
says so. The name of what Kubernetes runs is also its identity, and shown to all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from fallow.core.cluster import ClusterBoard, ClusterJobView, ClusterNode, Engine, GpuUse, NodeGpu, PodGpus
from fallow.core.cluster_names import concerns, subject_of
from fallow.core.job import JobActivity
from fallow.core.protections import ClusterPart, OneClusterJob, OneUser
from fallow.core.reasons import Reason, WithReason
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace, value
from fallow.core.visibility import Viewer

_NOT_SHOWN = Unknown("only its user and root may read it", asked=False)
_NO_NODES = Unknown("the nodes could not be read")


class GpuState(StrEnum):
    """What one GPU of the cluster does, or a job with its GPUs."""

    FREE = "free"
    FILLED = "filled"
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"
    OUT = "out"


_STATES = {
    JobActivity.BUSY: GpuState.BUSY,
    JobActivity.IDLE: GpuState.IDLE,
    JobActivity.UNKNOWN: GpuState.UNKNOWN,
}


@value
class JobLine(WithReason):
    """One job that holds GPUs."""

    key: str
    """What identifies it in the journal: `slurm:1234`, `kubernetes:Deployment/NAMESPACE/NAME`."""
    subject: str
    """What commands call it: `slurm:1234`, `deployment:NAMESPACE/NAME`."""
    name: str | Unknown
    user: str
    """Empty where the engine does not know it."""
    gpus: int
    idle_gpus: int
    """How many of them are idle now."""
    unknown_gpus: int
    nodes: tuple[str, ...]
    labels: Mapping[str, str]
    interactive: bool
    started_wall_s: float | Unknown
    activity: GpuState
    reason: Reason
    idle_s: float
    could_do_with: int | None
    rule: str
    action: str
    in_s: float
    refused: str | None
    left_alone: str | None
    opt_out: str | None
    no_way: str | None
    uses: tuple[tuple[str, str, str], ...] = ()
    """Of each of its GPUs the place, what it did, and why; only where one job is asked for."""

    @property
    def all_unknown(self) -> bool:
        """Return whether it is known of none of its GPUs what it does."""
        return self.unknown_gpus == self.gpus

    @property
    def is_filled(self) -> bool:
        """Return whether it is a background job, which gives its GPUs to whoever needs them."""
        return self.activity is GpuState.FILLED


@value
class NodeLine:
    """One node with GPUs, and how many of them are held, idle and filled."""

    name: str
    gpus: int
    held: int | Unknown
    """By background jobs, too."""
    idle: int | Unknown
    filled: int | Unknown
    labels: Mapping[str, str] = {}
    trouble: str | None = None


@value
class ClusterView:
    """The whole cluster."""

    engine: Engine
    at_wall_s: float
    acts: bool
    troubles: tuple[str, ...]
    counts: Mapping[str, int | Unknown]
    """How many GPUs are in each state; Unknown where the nodes, the jobs or the metrics could not be read."""
    jobs: tuple[JobLine, ...]
    """Those that waste most GPUs come first."""
    nodes: tuple[NodeLine, ...]
    pending: int | Unknown = NOT_ASKED
    more_jobs: int = 0
    """How many jobs were left out."""
    more_nodes: int = 0
    jobs_listed: bool = True
    """Whether the engine listed its jobs at the last look; if not, they are those of an earlier one, or none."""

    @property
    def total(self) -> int | Unknown:
        """Return how many GPUs there are."""
        for state in (GpuState.FREE, GpuState.OUT):
            number = self.counts[state.value]
            if isinstance(number, Unknown):
                return number
        # Where it is not known how many are busy and idle, all that are held count as unknown.
        return sum(number for number in self.counts.values() if not isinstance(number, Unknown))


def cluster_view(board: ClusterBoard, viewer: Viewer) -> ClusterView:
    """Return the cluster as the viewer may see it."""
    # A background job of an earlier look may have given way since: what its GPUs do is then unknown, as of any other.
    seen = board.jobs if board.engine_answers else tuple(replace(each, is_background=False) for each in board.jobs)
    jobs = sorted((_line(each, viewer) for each in seen), key=_by_waste)
    on_nodes: Counter[tuple[str, str]] = Counter()
    for each in seen:
        _count_nodes(each, on_nodes)
    blind = _why_blind(board, jobs)
    silent = None if board.engine_answers else blind
    nodes = tuple(_node(node, on_nodes, silent, blind) for node in board.nodes)
    return ClusterView(
        board.engine,
        board.at_wall_s,
        board.acts,
        board.troubles,
        _counts(jobs, nodes if board.engine_answers else (), silent, blind),
        tuple(jobs),
        nodes,
        board.pending,
        jobs_listed=board.engine_answers,
    )


def meant(board: ClusterBoard, target: OneClusterJob | ClusterPart | OneUser) -> ClusterBoard:
    """Return the cluster with only the jobs that are meant, and of a node only that one; the rest of it stays."""
    jobs = tuple(each for each in board.jobs if concerns(target, each.job))
    nodes = board.nodes
    if isinstance(target, ClusterPart) and target.kind == "node":
        nodes = tuple(node for node in nodes if node.name == target.name)
    return replace(board, jobs=jobs, nodes=nodes)


def narrowed(view: ClusterView, most_jobs: int, most_nodes: int) -> ClusterView:
    """Return the view with the first jobs, and the nodes that need a look first: in trouble, idle, then by name."""
    nodes = sorted(view.nodes, key=_by_need)
    return replace(
        view,
        jobs=view.jobs[:most_jobs],
        more_jobs=view.more_jobs + max(0, len(view.jobs) - most_jobs),
        nodes=tuple(nodes[:most_nodes]) if len(nodes) > most_nodes else view.nodes,
        more_nodes=view.more_nodes + max(0, len(nodes) - most_nodes),
    )


def with_uses(line: JobLine, board: ClusterBoard) -> JobLine:
    """Return the job with what each of its GPUs did."""
    found = next((each for each in board.jobs if each.job.key == line.key), None)
    uses = () if found is None else found.uses
    return replace(line, uses=tuple((_place(use), use.activity.value, str(use.reason)) for use in uses))


def idle_by(jobs: Iterable[JobLine], labels: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Return how many GPUs are idle, by these labels of the jobs and their user."""
    found: Counter[tuple[str, ...]] = Counter()
    for job in jobs:
        found[(*(job.labels.get(label, "") for label in labels), job.user)] += job.idle_gpus
    return found


def _line(view: ClusterJobView, viewer: Viewer) -> JobLine:
    job = view.job
    by_state = _by_state(view)
    shown = job.engine is Engine.KUBERNETES or viewer.may_read(job.user)
    return JobLine(
        key=job.key,
        subject=subject_of(job.key),
        name=job.name if shown else _NOT_SHOWN,
        user=job.user,
        gpus=job.gpu_count,
        idle_gpus=by_state[GpuState.IDLE],
        unknown_gpus=by_state[GpuState.UNKNOWN],
        nodes=job.nodes,
        labels=job.labels,
        interactive=job.interactive,
        started_wall_s=job.started_wall_s,
        activity=GpuState.FILLED if view.is_background else _STATES[view.activity],
        reason=Reason("cluster_background") if view.is_background else view.reason,
        idle_s=0.0 if view.is_background else view.idle_s,
        could_do_with=view.could_do_with,
        rule=view.rule,
        action=view.action,
        in_s=view.in_s,
        refused=view.refused,
        left_alone=view.left_alone,
        opt_out=None if job.opt_out is None else str(job.opt_out),
        no_way=job.no_way,
    )


def _node(
    node: ClusterNode, on_nodes: Counter[tuple[str, str]], silent: Unknown | None, blind: Unknown | None
) -> NodeLine:
    """Return one node; where nothing is held, or by background jobs alone, nothing is idle."""
    held = on_nodes[node.name, "held"] if silent is None else silent
    filled = on_nodes[node.name, "filled"] if silent is None else silent
    idle = on_nodes[node.name, "idle"] if blind is None or (silent is None and held == filled) else blind
    return NodeLine(node.name, node.gpus, held, idle, filled, node.labels, node.trouble)


def _by_state(view: ClusterJobView) -> Counter[GpuState]:
    """Return how many GPUs of a job do what; those of which nothing is said are unknown."""
    if view.is_background:
        return Counter({GpuState.FILLED: view.job.gpu_count})
    found: Counter[GpuState] = Counter()
    left = view.job.gpu_count
    for use in view.uses:
        number = min(left, _weight(use))
        found[_STATES[use.activity]] += number
        left -= number
    found[GpuState.UNKNOWN] += left
    return found


def _weight(use: GpuUse) -> int:
    """Return of how many GPUs this is said: of all of a pod where none of them was found."""
    return use.place.count if isinstance(use.place, PodGpus) and use.key is None else 1


def _count_nodes(view: ClusterJobView, on_nodes: Counter[tuple[str, str]]) -> None:
    """Add to how many GPUs of each node are held, idle and filled."""
    for place in view.job.places:
        on_nodes[place.node, "held"] += place.count
        on_nodes[place.node, "filled"] += place.count * view.is_background
    for use in () if view.is_background else view.uses:
        on_nodes[use.place.node, "idle"] += use.activity is JobActivity.IDLE


def _why_blind(board: ClusterBoard, jobs: Sequence[JobLine]) -> Unknown | None:
    """Return why it is not known what the GPUs do that jobs hold; None if it is known of some, or none is held.

    Of a background job it is always known.
    """
    others = [job for job in jobs if not job.is_filled]
    nothing_told = board.troubles and any(job.gpus for job in others) and all(job.all_unknown for job in others)
    if board.engine_answers and not nothing_told:
        return None
    return Unknown(board.troubles[0] if board.troubles else "the engine did not list its jobs")


def _counts(
    jobs: Iterable[JobLine], nodes: Sequence[NodeLine], silent: Unknown | None, blind: Unknown | None
) -> dict[str, int | Unknown]:
    gpus = filled = idle = unknown = 0
    for job in jobs:
        filled, gpus = filled + job.gpus * job.is_filled, gpus + job.gpus * (not job.is_filled)
        idle, unknown = idle + job.idle_gpus, unknown + job.unknown_gpus
    out: int | Unknown = _NO_NODES
    free: int | Unknown = _NO_NODES
    if nodes:
        unusable = _out(nodes)
        if isinstance(unusable, Unknown):
            free = out = unusable
        else:
            empty, stranded = unusable
            free = max(0, sum(node.gpus for node in nodes) - gpus - filled - empty)
            filled, out = filled - stranded, empty + stranded
    return {
        GpuState.FREE.value: free,
        GpuState.FILLED.value: filled if silent is None else silent,
        GpuState.BUSY.value: gpus - idle - unknown if blind is None else blind,
        GpuState.IDLE.value: idle if blind is None else blind,
        GpuState.UNKNOWN.value: unknown if blind is None or gpus else blind,
        GpuState.OUT.value: out,
    }


def _out(nodes: Iterable[NodeLine]) -> tuple[int, int] | Unknown:
    """Return how many GPUs of nodes at which no job can begin nobody holds, and how many only background jobs do."""
    empty = stranded = 0
    for node in nodes:
        if node.trouble is not None:
            if isinstance(node.held, Unknown):
                return node.held
            if isinstance(node.filled, Unknown):
                return node.filled
            empty, stranded = empty + max(0, node.gpus - node.held), stranded + node.filled
    return empty, stranded


def _by_need(node: NodeLine) -> tuple[bool, int, str]:
    return node.trouble is None, 0 if isinstance(node.idle, Unknown) else -node.idle, node.name


def _by_waste(line: JobLine) -> tuple[int, float, str]:
    return -line.idle_gpus, -line.idle_s, line.key


def _place(use: GpuUse) -> str:
    if use.key is None or isinstance(use.place, NodeGpu):
        return str(use.place)
    return f"{use.place} {use.place.node} {use.key.uuid}"
