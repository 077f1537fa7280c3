"""A neighbour runs an exporter that is scraped: whatever it says, nothing is idle that a true one shows busy."""

from hypothesis import example, given
from hypothesis import strategies as st

from fallow.core.cluster import ClusterJob, Engine, GpuPlace, NodeGpu, PodGpus, Readings
from fallow.core.job import JobActivity
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.policies.cluster_use import ReadingIndex, job_use
from fallow.readers.prometheus.eyes import PrometheusEyes
from fallow.readers.prometheus.merge import merged
from fallow.readers.prometheus.series import Pod, Seen
from fallow.readers.prometheus.vocabulary import FIGURES
from tests.readers.prometheus.answers import FakePrometheus, gpus

VICTIM, UID = ("ml", "train-0"), "uid-of-train-0"
HELD = (NodeGpu("n1", 0), PodGpus(*VICTIM, 1, UID))


def seen(
    host: str,
    uuid: str,
    index: int | None,
    load: float | Unknown,
    pods: tuple[Pod, ...] = (),
    uids: tuple[str, ...] = (),
    parent: str = "",
    *,
    of_moments: bool = False,
) -> Seen:
    return Seen(host, uuid, index, parent, load, of_moments, "", pods, uids, (NOT_ASKED,) * len(FIGURES))


truths = st.builds(
    seen,
    st.sampled_from(["n1", "N1", "n1.example.org"]),
    st.just("GPU-true"),
    st.just(0),
    st.just(0.9),
    st.sampled_from([(VICTIM,), ()]),
    st.just((UID,)),
)
lies = st.builds(
    seen,
    st.sampled_from(["n1", "N1", "n1.example.org", "n1.", "n2"]),
    st.sampled_from(["GPU-true", "GPU-false"]),
    st.sampled_from([0, 1, None]),
    st.just(0.0),
    st.sampled_from([(), (VICTIM,), (("hers", "x"),), (VICTIM, ("hers", "x"))]),
    st.sampled_from([(), (UID,), ("uid-of-hers",)]),
    st.sampled_from(["", "GPU-true"]),
)


@given(truths, st.lists(lies, max_size=4))
@example(seen("n1.example.org", "GPU-true", 0, 0.9), [seen("n1", "GPU-false", 0, 0.0)])
@example(seen("n1", "GPU-true", 0, 0.9), [seen("n1", "GPU-true", 1, 0.0), seen("n1", "GPU-false", 0, 0.0)])
@example(
    seen("n1", "GPU-true", 0, 0.9, (VICTIM,)),
    [seen("n1", "GPU-true", 0, 0.0, (("hers", "x"),)), seen("n2", "GPU-false", 0, 0.0, (VICTIM,))],
)
@example(
    seen("n1", "GPU-true", 0, 0.9, (), (UID,)),
    [seen("n1", "GPU-true", 0, 0.0, (("hers", "x"),)), seen("n2", "GPU-false", 0, 0.0, (VICTIM,))],
)
def test_no_lies_beside_a_true_exporter_make_a_job_idle_that_works(truth: Seen, said: list[Seen]) -> None:
    for found in ([truth, *said], [*said, truth]):
        index = ReadingIndex(Readings(1.0, 60.0, merged(found)))
        places: list[GpuPlace] = [HELD[0]]
        if truth.pods or truth.pod_uids:
            places.append(HELD[1])
        for place in places:
            job = ClusterJob(Engine.SLURM, "7", "train", "ada", (place,), 0.0)
            assert job_use(job, index).activity is not JobActivity.IDLE, place


def test_what_one_exporter_saw_all_the_time_counts_beside_the_moments_of_another() -> None:
    of_dcgm, own = seen("n1", "GPU-1", 0, 0.0, of_moments=True), seen("n1", "GPU-1", 0, 0.0)
    assert [each.of_moments for each in merged([of_dcgm])] == [True]
    assert [each.of_moments for each in merged([of_dcgm, own])] == [False]


def test_a_gpu_of_another_domain_is_another_one() -> None:
    found = merged([seen("n1.east", "GPU-1", 0, 0.0), seen("n1.west", "GPU-2", 0, 0.0)])
    assert [each.utilization for each in found] == [0.0, 0.0]


def test_a_gpu_that_two_pods_share_is_shown_by_its_load_and_makes_neither_of_them_idle() -> None:
    found = merged([seen("n1", "GPU-1", 0, 0.0, (VICTIM, ("ml", "other")))])
    assert [each.utilization for each in found] == [0.0]
    for pod in ("train-0", "other"):
        job = ClusterJob(Engine.KUBERNETES, "x", "x", "", (PodGpus("ml", pod, 1, ""),), 0.0)
        assert job_use(job, ReadingIndex(Readings(1.0, 60.0, found))).activity is JobActivity.UNKNOWN


def test_only_series_of_the_exporters_that_are_named_are_read() -> None:
    true, hers = gpus(1, 2), [{**each, "job": "hers", "Hostname": "node-hers"} for each in gpus(1, 2)]

    def read(*exporters: str) -> Readings:
        answers = FakePrometheus([*true, *hers], 0.0)
        return PrometheusEyes(SystemClock(), answers, scrape_interval_s=30.0, exporters=exporters).read()

    assert {each.key.host for each in read().gpus} == {"node-00000", "node-hers"}
    assert {each.key.host for each in read("other", "dc*").gpus} == {"node-00000"}
    nobody = read("mistyped")
    assert nobody.gpus == ()
    assert isinstance(nobody.trouble, Unknown)
