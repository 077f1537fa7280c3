"""Clusters to look at: a small one with a bit of everything, and one of any size."""

from typing import Any

from fallow.core.cluster import (
    ClusterBoard,
    ClusterJob,
    ClusterJobView,
    ClusterNode,
    Engine,
    GpuPlace,
    GpuSeconds,
    GpuUse,
    NodeGpu,
    PodGpus,
)
from fallow.core.job import GpuKey, JobActivity
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.reasons import said

WALL_S = 1_763_200_000.0
SILENT = "the jobs of Slurm cannot be listed: no answer within 5 s"


def use(place: GpuPlace, activity: JobActivity, because: str = "0.0% at most", host: str = "") -> GpuUse:
    """What one GPU did; `host` is what the metrics call its node, if that is another name."""
    return GpuUse(place, activity, said(because), GpuKey(host or place.node, f"GPU-{place}-{host}"))


def slurm_job(number: int, user: str, places: tuple[NodeGpu, ...], idle: int = 0, **more: Any) -> ClusterJobView:
    """A job of Slurm of whose GPUs the first ones are idle."""
    job = ClusterJob(
        Engine.SLURM,
        more.pop("id", str(number)),
        more.pop("name", f"train-{number}"),
        user,
        places,
        WALL_S - 7200,
        labels=more.pop("labels", {"partition": "gpu", "account": "vision"}),
        interactive=more.pop("interactive", False),
        opt_out=more.pop("opt_out", None),
        no_way=more.pop("no_way", None),
    )
    uses = tuple(
        use(place, JobActivity.IDLE if at < idle else JobActivity.BUSY, "0.0%" if at < idle else "93%")
        for at, place in enumerate(places)
    )
    activity = JobActivity.IDLE if idle == len(places) else JobActivity.BUSY
    return ClusterJobView(job, activity, said(f"{idle} of {len(places)} idle"), more.pop("uses", uses), **more)


def small(wall_s: float = WALL_S, **changes: Any) -> ClusterBoard:
    """Two nodes of four GPUs and one that is drained; three jobs."""
    n1 = tuple(NodeGpu("n1", index) for index in range(4))
    n2 = tuple(NodeGpu("n2", index) for index in range(4))
    jobs = (
        slurm_job(7, "bob", (n2[0],)),
        slurm_job(1234, "ada", n1[:2], idle=2, idle_s=2700.0, rule="idle gpus", action="warn", in_s=900.0),
        slurm_job(90, "carol", (*n1[2:], n2[1]), idle=2, could_do_with=1, rule="idle gpus"),
        slurm_job(91, "dan", (n2[2],), uses=()),
    )
    seconds = GpuSeconds({("filled", "scavenger", "", "", "", "games"): 90.0}, {("free", "n1"): 60.0})
    facts: dict[str, Any] = {
        "nodes": (
            ClusterNode("n1", 4, {"partition": "gpu"}),
            ClusterNode("n2", 4, {"partition": "gpu"}),
            ClusterNode("n3", 4, {"partition": "gpu"}, "drained: fan failed"),
        ),
        "jobs": jobs,
        "pending": 6,
        "acts": True,
        "seconds": seconds,
    }
    return ClusterBoard(Engine.SLURM, wall_s, **(facts | changes))


def owned(wall_s: float = WALL_S) -> ClusterBoard:
    """A job of the user 61001, whom the kernel knows by this number alone."""
    return small(wall_s, jobs=(slurm_job(61, "61001", (NodeGpu("n1", 0),), idle=1),))


def silent(wall_s: float = WALL_S) -> ClusterBoard:
    """A Slurm that has not answered since the daemon began."""
    return small(
        wall_s,
        jobs=(),
        nodes=(),
        pending=Unknown("gone"),
        troubles=(SILENT,),
        engine_answers=False,
        metrics_answer=False,
    )


def fell_silent(wall_s: float = WALL_S) -> ClusterBoard:
    """A Slurm that answered before, and does not now: its jobs and nodes are those of an earlier look."""
    return replace(unread(wall_s), troubles=(SILENT,), engine_answers=False, pending=Unknown("gone"))


def unread(wall_s: float = WALL_S) -> ClusterBoard:
    """A Slurm that answers, beside metrics that do not: nothing is known of what its jobs do."""
    board = small(wall_s, troubles=("the metrics cannot be read: refused",), metrics_answer=False)
    return replace(board, jobs=tuple(_blind(each) for each in board.jobs))


def _blind(view: ClusterJobView) -> ClusterJobView:
    return replace(view, activity=JobActivity.UNKNOWN, reason=said("nobody looked"), uses=())


def pods(wall_s: float = WALL_S) -> ClusterBoard:
    """A Deployment of two pods, whose GPUs the metrics find by a host of another name, and a pod without readings."""
    places = (PodGpus("ml", "web-1", 1, node="k1"), PodGpus("ml", "web-2", 2, node="k2"))
    job = ClusterJob(Engine.KUBERNETES, "Deployment/ml/web", "web", "", places, WALL_S, labels={"namespace": "ml"})
    uses = (
        use(places[0], JobActivity.IDLE, host="fallow-node-7xk2p"),
        use(places[1], JobActivity.BUSY, "71%", host="fallow-node-q9z4m"),
        use(places[1], JobActivity.IDLE, host="fallow-node-q9z4m"),
    )
    lost = ClusterJob(Engine.KUBERNETES, "Pod/ml/lost", "lost", "", (PodGpus("ml", "lost", 4, node="k1"),), WALL_S)
    nothing = GpuUse(lost.places[0], JobActivity.UNKNOWN, said("no series"))
    return ClusterBoard(
        Engine.KUBERNETES,
        wall_s,
        nodes=(ClusterNode("k1", 8), ClusterNode("k2", 8)),
        jobs=(
            ClusterJobView(job, JobActivity.BUSY, said("71%"), uses),
            ClusterJobView(lost, JobActivity.UNKNOWN, said("no series"), (nothing,)),
        ),
    )


def large(jobs: int, gpus_of_job: int = 5, nodes: int = 2500) -> ClusterBoard:
    """As many jobs as a test wants, each with idle GPUs."""
    made, at = [], 0
    for number in range(jobs):
        places = tuple(NodeGpu(f"node{(at + k) // 8 % nodes:04}", (at + k) % 8) for k in range(gpus_of_job))
        at += gpus_of_job
        labels = {"partition": f"p{number % 9}", "account": f"account{number % 300}"}
        made.append(slurm_job(number, f"user{number % 500}", places, idle=number % 6, labels=labels))
    listed = tuple(ClusterNode(f"node{number:04}", 8) for number in range(nodes))
    return ClusterBoard(Engine.SLURM, WALL_S, nodes=listed, jobs=tuple(made))


def filled(wall_s: float = WALL_S) -> ClusterBoard:
    """Beside the job of ada, whose two GPUs are idle, background jobs on a GPU of each node, one of them drained."""
    of_it = {"name": "science", "labels": {"partition": "scavenger"}, "is_background": True, "idle_s": 60.0}
    places = (NodeGpu("n1", 2), NodeGpu("n2", 0), NodeGpu("n3", 0))
    background = tuple(slurm_job(800 + at, "games", (place,), idle=1, **of_it) for at, place in enumerate(places))
    return small(wall_s, jobs=(*background, small().jobs[1]))


def filled_unread(wall_s: float = WALL_S) -> ClusterBoard:
    """The same jobs beside metrics that cannot be read."""
    board = replace(filled(wall_s), troubles=("the metrics cannot be read: refused",), metrics_answer=False)
    return replace(board, jobs=tuple(_blind(each) for each in board.jobs))
