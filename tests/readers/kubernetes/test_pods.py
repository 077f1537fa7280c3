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
    """An API server that has one pod, and nothing else."""

    def __init__(self, gpus: str, *, claims: bool = True) -> None:
        self.pod = pod("a", gpus=gpus)
        if claims:
            self.pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]

    def wait(self, reason: str, message: str) -> None:
        """Take the node away from the pod, and say what the scheduler says of it."""
        del self.pod["spec"]["nodeName"]
        self.pod["status"]["conditions"] = [{"type": "PodScheduled", "reason": reason, "message": message}]

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
    api.wait("Unschedulable", "0/1 nodes are available: 1 cannot allocate all claims.")
    assert isinstance(KubernetesEngine(api, SystemClock()).look().pending_gpus, Unknown)


@pytest.mark.parametrize(
    ("reason", "message", "pending"),
    [
        ("Unschedulable", "0/3 nodes are available: 2 Insufficient nvidia.com/gpu.", 3),
        ("Unschedulable", "0/3 nodes are available: 3 node(s) had untolerated taint {nvidia.com/gpu: present}.", 0),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", 0),
    ],
)
def test_only_a_pod_that_the_scheduler_keeps_for_want_of_gpus_waits_for_them(
    reason: str, message: str, pending: int
) -> None:
    api = OnePod("3", claims=False)
    api.wait(reason, message)
    look = KubernetesEngine(api, SystemClock()).look()
    assert (look.jobs, look.pending_gpus) == ((), pending)
