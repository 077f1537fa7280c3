"""Several exporters may show one GPU: the busier one counts, and what they contradict each other about is unknown."""

import pytest

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

POD = ("ml", "train-0")
OTHER_POD = ("ml", "other")


def seen(
    host: str,
    uuid: str,
    index: int | None,
    load: float,
    pods: tuple[Pod, ...] = (),
    *,
    of_moments: bool = False,
) -> Seen:
    return Seen(host, uuid, index, "", load, of_moments, pods, (), (NOT_ASKED,) * len(FIGURES))


def activity(place: GpuPlace, *found: Seen) -> JobActivity:
    job = ClusterJob(Engine.SLURM, "7", "train", "ada", (place,), 0.0)
    return job_use(job, ReadingIndex(Readings(1.0, 60.0, merged(found)))).activity


@pytest.mark.parametrize(
    ("place", "busy", "idle"),
    [
        (NodeGpu("n1", 0), seen("n1", "GPU-1", 0, 0.9), seen("n1.example.org", "GPU-1", 0, 0.0)),
        (NodeGpu("n1", 0), seen("n1", "GPU-1", 0, 0.9), seen("n1", "GPU-2", 0, 0.0)),
        (NodeGpu("n1", 0), seen("n1", "GPU-1", 0, 0.9), seen("n1", "GPU-1", 1, 0.0)),
        (PodGpus(*POD, 1), seen("n1", "GPU-1", 0, 0.9, (POD,)), seen("n1", "GPU-1", 0, 0.0, (OTHER_POD,))),
        (PodGpus(*POD, 1), seen("n1", "GPU-1", 0, 0.9, (POD,)), seen("n2", "GPU-2", 0, 0.0, (POD,))),
    ],
)
def test_no_exporter_beside_another_makes_a_job_idle_that_works(place: GpuPlace, busy: Seen, idle: Seen) -> None:
    for found in ((busy, idle), (idle, busy)):
        assert activity(place, *found) is not JobActivity.IDLE


def test_two_gpus_with_the_same_index_of_a_host_are_unknown() -> None:
    found = (seen("n1", "GPU-1", 0, 0.0), seen("n1.example.org", "GPU-2", 0, 0.0))
    assert activity(NodeGpu("n1", 0), *found) is JobActivity.UNKNOWN


def test_what_one_exporter_saw_all_the_time_counts_beside_the_moments_of_another() -> None:
    of_dcgm, own = seen("n1", "GPU-1", 0, 0.0, of_moments=True), seen("n1", "GPU-1", 0, 0.0)
    assert [each.of_moments for each in merged([of_dcgm])] == [True]
    assert [each.of_moments for each in merged([of_dcgm, own])] == [False]


def test_a_gpu_of_another_domain_is_another_one() -> None:
    found = merged([seen("n1.east", "GPU-1", 0, 0.0), seen("n1.west", "GPU-2", 0, 0.0)])
    assert [each.utilization for each in found] == [0.0, 0.0]


def test_a_gpu_that_two_pods_share_makes_neither_of_them_idle() -> None:
    shared = seen("n1", "GPU-1", 0, 0.0, (POD, OTHER_POD))
    for pod in (POD, OTHER_POD):
        assert activity(PodGpus(*pod, 1), shared) is JobActivity.UNKNOWN


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
