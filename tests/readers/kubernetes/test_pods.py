"""What a pod holds: by its limits that is known, by its resource claims it is not."""

import pytest

from fallow.core.cluster import GpuReading, PodGpus, Readings
from fallow.core.job import GpuKey, JobActivity
from fallow.core.kube_api import KubeAnswer, Question
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from fallow.policies.cluster_use import ReadingIndex, job_use
from tests.readers.kubernetes.broken_api import pod


class OnePod:
    """An API server that has one pod with a resource claim, and nothing else."""

    def __init__(self, gpus: str) -> None:
        self.pod = pod("a", gpus=gpus)
        self.pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        return KubeAnswer(200, {"items": [self.pod] if question.resource.plural == "pods" else []})


@pytest.mark.parametrize("gpus", ["0", "1"])
def test_a_pod_with_a_claim_counts_with_a_gpu_more_and_is_never_idle(gpus: str) -> None:
    jobs = KubernetesEngine(OnePod(gpus), SystemClock()).look().jobs
    assert not isinstance(jobs, Unknown)
    (job,) = jobs
    assert job.gpu_count == int(gpus) + 1
    assert isinstance(job.places[0], PodGpus)
    idle = GpuReading(GpuKey("n1", "GPU-1"), 0, 0.0, pod_uid="uid-a")
    use = job_use(job, ReadingIndex(Readings(1.0, 60.0, (idle,))))
    assert use.activity is JobActivity.UNKNOWN
    assert "it has resource claims" in str(use.reason)


def test_a_pod_that_waits_for_a_claim_makes_it_unknown_how_many_gpus_are_waited_for() -> None:
    api = OnePod("0")
    del api.pod["spec"]["nodeName"]
    said = "0/1 nodes are available: 1 cannot allocate all claims."
    api.pod["status"]["conditions"] = [{"type": "PodScheduled", "reason": "Unschedulable", "message": said}]
    assert isinstance(KubernetesEngine(api, SystemClock()).look().pending_gpus, Unknown)
