"""A job of a cluster is idle only if each of its GPUs is known to be."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.actions import Ask, Kill
from fallow.core.cluster import ClusterJob, ClusterNode, Engine, GpuPlace, GpuReading, NodeGpu, PodGpus, Readings
from fallow.core.job import GpuKey, JobActivity
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule, JobCount, count, has_joined
from fallow.policies.cluster_use import JobUse, ReadingIndex, could_do_with, job_use

NODES = ("n1", "n2", "N3.example.org")
loads = st.one_of(
    st.just(0.0), st.floats(0, 1), st.floats(), st.just(Unknown("no scrape")), st.sampled_from([0.009, 0.01, 1.0])
)
hosts = st.sampled_from(["n1", "n2", "n3", "n3.example.org", "n1.example.org"])
pods = st.none() | st.tuples(st.just("ml"), st.sampled_from(["a", "b"]))
readings = st.builds(
    GpuReading,
    st.builds(GpuKey, hosts, st.sampled_from(["GPU-1", "GPU-2", "GPU-3", "GPU-4"])),
    st.none() | st.integers(0, 2),
    loads,
    memory_used_bytes=st.sampled_from([0, 10**10, Unknown("?")]),
    processes=st.sampled_from([0, 1, Unknown("?")]),
    pod=pods,
)
looks = st.builds(
    Readings,
    st.just(10.0),
    st.just(60.0),
    st.lists(readings, max_size=12).map(tuple),
    st.none() | st.just(Unknown("silent")),
)
places = st.lists(
    st.one_of(
        st.builds(NodeGpu, st.sampled_from(NODES), st.integers(0, 2)),
        st.builds(PodGpus, st.just("ml"), st.sampled_from(["a", "b", "c"]), st.integers(0, 3)),
    ),
    max_size=4,
    unique=True,
).map(tuple)


def job(held: tuple[GpuPlace, ...] = (), user: str = "ada") -> ClusterJob:
    return ClusterJob(Engine.SLURM, "7_2", "train", user, held, 0.0, labels={"partition": "gpu", "account": "lab"})


def fitting(place: GpuPlace, reading: GpuReading) -> bool:
    """Whether a reading is of that place, said once more and slowly."""
    if isinstance(place, PodGpus):
        return reading.pod == (place.namespace, place.pod)
    node, host = place.node.lower(), reading.key.host.lower()
    same = node == host or (("." in node) is not ("." in host) and node.split(".")[0] == host.split(".")[0])
    return same and reading.index == place.index


@given(held=places, look=looks)
def test_a_job_is_idle_only_if_every_reading_of_each_of_its_gpus_says_so(
    held: tuple[GpuPlace, ...], look: Readings
) -> None:
    use = job_use(job(held), ReadingIndex(look))
    if use.activity is not JobActivity.IDLE:
        return
    assert held
    for place in held:
        exact = [each for each in look.gpus if isinstance(place, PodGpus) and fitting(place, each)]
        if isinstance(place, NodeGpu):
            node = place.node.lower()
            exact = [each for each in look.gpus if each.key.host == node and each.index == place.index]
            exact = exact or [each for each in look.gpus if fitting(place, each)]
        assert all(isinstance(each.utilization, float) and 0 <= each.utilization < 0.01 for each in exact)
        wanted = place.count if isinstance(place, PodGpus) else 1
        assert len({each.key.uuid for each in exact}) >= wanted


@given(held=places, look=looks)
def test_work_on_any_gpu_makes_a_job_busy_and_each_gpu_has_its_use(
    held: tuple[GpuPlace, ...], look: Readings
) -> None:
    use = job_use(job(held), ReadingIndex(look))
    assert (use.activity is JobActivity.BUSY) is any(each.activity is JobActivity.BUSY for each in use.uses)
    assert len(use.uses) >= sum(place.count if isinstance(place, PodGpus) else 1 for place in held)
    assert str(use.reason)
    assert use.may_be_used <= len(use.uses)


def test_a_gpu_in_another_node_than_the_pods_never_makes_the_pod_idle() -> None:
    """Somebody there may have given a cgroup the name of the pod. An exporter may call its host by no node's name."""
    nodes = (ClusterNode("n1", 1), ClusterNode("n2.example.org", 1))

    def activity(host: str, node: str) -> JobActivity:
        reading = GpuReading(GpuKey(host, "GPU-1"), 0, 0.0, pod_uid="uid-of-a")
        held = job((PodGpus("ml", "a", 1, "uid-of-a", node=node),))
        return job_use(held, ReadingIndex(Readings(10.0, 60.0, (reading,)), nodes)).activity

    idle, unknown = JobActivity.IDLE, JobActivity.UNKNOWN
    assert [activity(host, "n1") for host in ("n1", "N1", "n1.example.org", "fallow-x7f2a")] == [idle] * 4
    assert [activity(host, "n1") for host in ("n2", "n2.example.org", "N2")] == [unknown] * 3
    assert [activity(host, "n2.example.org") for host in ("n2", "n2.elsewhere.org", "n1")] == [idle, unknown, unknown]


def test_a_gpu_of_a_pod_is_one_whatever_exporters_call_its_host() -> None:
    def use(*loads: float) -> JobUse:
        hosts = ("n1", "fallow-node-7xk2p")
        gpus = [
            GpuReading(GpuKey(host, "GPU-1"), 0, load, pod=("ml", "a"))
            for host, load in zip(hosts, loads, strict=True)
        ]
        held = job((PodGpus("ml", "a", 2, node="n1"),))
        return job_use(held, ReadingIndex(Readings(1.0, 60.0, tuple(gpus)), [ClusterNode("n1", 2)]))

    assert [each.activity for each in use(0.0, 0.0).uses] == ["idle", "unknown"], "of the second nothing is known"
    assert [each.activity for each in use(0.0, 0.5).uses] == ["busy", "unknown"]


def test_a_utilization_of_moments_shows_work_and_never_idleness() -> None:
    """A job that works 5 % of the time is at rest in most of the moments."""

    def activity(load: float, used_bytes: int, *, of_moments: bool) -> JobActivity:
        gpu = GpuReading(GpuKey("n1", "GPU-1"), 0, load, of_moments=of_moments, memory_used_bytes=used_bytes)
        return job_use(job((NodeGpu("n1", 0),)), ReadingIndex(Readings(1.0, 60.0, (gpu,))), 0.1).activity

    assert [activity(load, 40 << 30, of_moments=True) for load in (0.0, 0.05, 0.1)] == ["unknown", "unknown", "busy"]
    assert activity(0.0, 0, of_moments=True) is JobActivity.UNKNOWN
    assert activity(0.0, 40 << 30, of_moments=False) is JobActivity.IDLE


def test_a_node_may_be_named_with_or_without_its_domain_unless_that_is_ambiguous() -> None:
    def activity(node: str, *hosts: str) -> JobActivity:
        gpus = tuple(GpuReading(GpuKey(host, f"GPU-{host}"), 0, 0.0) for host in hosts)
        return job_use(job((NodeGpu(node, 0),)), ReadingIndex(Readings(1.0, 60.0, gpus))).activity

    assert activity("n1", "n1.example.org") is JobActivity.IDLE
    assert activity("n1.example.org", "N1") is JobActivity.IDLE
    assert activity("n1", "n1.east", "n1.west") is JobActivity.UNKNOWN
    assert activity("n1.east", "n1.west") is JobActivity.UNKNOWN


def held_by_index(count: int, indices: Sequence[int | None], node: str = "n1", host: str = "n1") -> JobUse:
    """What a job on GPU 0 did: the node has so many GPUs by Slurm, and idle ones of these indices by the metrics."""
    gpus = tuple(GpuReading(GpuKey(host, f"GPU-{at}"), index, 0.0) for at, index in enumerate(indices))
    index = ReadingIndex(Readings(1.0, 60.0, gpus), [ClusterNode(node, count), ClusterNode("n2", 99)])
    return job_use(job((NodeGpu(node, 0),)), index)


def test_a_gpu_is_found_by_its_index_where_slurm_and_the_metrics_count_the_same_gpus() -> None:
    assert held_by_index(4, range(4)).activity is JobActivity.IDLE
    assert held_by_index(1, [0], "N1.example.org").activity is JobActivity.IDLE


@pytest.mark.parametrize(
    ("count", "indices"),
    [
        pytest.param(
            8, [None] * 7 + [0], id="one card of two is divided into MIG instances, which Slurm counts first"
        ),
        pytest.param(7, [0, *[None] * 7], id="a divided card and its instances"),
        pytest.param(7, [0], id="an exporter that shows no instances, of a card that is divided"),
        pytest.param(4, range(8), id="Slurm has four of eight GPUs, and counts these from 0"),
        pytest.param(4, range(3), id="one is missing, and the rest may have moved up"),
        pytest.param(2, [0, 2], id="as many, and others"),
    ],
)
def test_where_slurm_and_the_metrics_count_other_gpus_an_index_says_nothing(
    count: int, indices: Sequence[int | None]
) -> None:
    for host in ("n1", "N1.example.org"):
        use = held_by_index(count, indices, host=host)
        assert (use.activity, use.reason.kind) == (JobActivity.UNKNOWN, "place_unclear"), use.reason
        assert "n1" in str(use.reason)


def test_what_a_job_could_do_with_is_less_than_it_has_and_more_than_nothing() -> None:
    held = job(tuple(NodeGpu("n1", index) for index in range(8)))
    assert [could_do_with(held, used) for used in (0, 1, 7, 8, 9)] == [None, 1, 7, None, None]


signs = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.5, Unknown("?")])
steps = st.lists(st.tuples(signs, st.sampled_from([30.0, 30.0, 30.0, 500.0, 0.0, -5.0])), max_size=60)


@given(history=steps)
def test_a_job_is_asked_only_after_so_much_witnessed_idleness_and_killed_only_while_it_is_known_idle(
    history: list[tuple[float | Unknown, float]],
) -> None:
    rule = ClusterRule("r", acts=True, idle=ClusterLadder(300.0, 60.0, 90.0, 120.0), longest_gap_s=90.0)
    counted, at_s, idle_s = JobCount(), 0.0, 0.0
    held = job((NodeGpu("n1", 0),))
    for load, passed_s in history:
        at_s += passed_s
        look = Readings(at_s, 45.0, (GpuReading(GpuKey("n1", "GPU-1"), 0, load),))
        use = job_use(held, ReadingIndex(look))
        first = counted.at_s is None
        counted, actions = count(counted, at_s, look.covers_s, use, rule)
        if isinstance(load, float):
            idle_s = 0.0 if load else idle_s + (passed_s if passed_s == 30.0 and not first else 0.0)
        if any(isinstance(action, Ask) for action in actions):
            assert idle_s >= 300
        if any(isinstance(action, Ask | Kill) for action in actions):
            assert use.activity is JobActivity.IDLE


FIRST, SECOND, THIRD = (PodGpus("ml", f"web-{uid}", 1, uid) for uid in "abc")
BOTH = ClusterJob(Engine.KUBERNETES, "Deployment/ml/web", "web", "", (FIRST, SECOND), 20.0)


def test_the_pod_that_started_last_may_end_first_and_the_job_is_the_same() -> None:
    """By the start of its latest pod the job seemed to be stopped, and to have come back at once."""
    assert not has_joined(BOTH, replace(BOTH, places=(FIRST,), started_wall_s=10.0))


def test_a_new_pod_beside_an_old_one_makes_counting_begin_at_zero() -> None:
    assert has_joined(BOTH, replace(BOTH, places=(FIRST, THIRD), started_wall_s=10.0))
