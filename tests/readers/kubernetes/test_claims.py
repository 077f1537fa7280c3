"""A pod that holds GPUs through resource claims is counted; claims that cannot be read are a doubt, never none."""

from typing import Any

import pytest

from fallow.core.cluster import ClusterJob, GpuReading, PodGpus, Readings
from fallow.core.job import GpuKey, JobActivity
from fallow.core.kube_api import KubeAnswer, Question
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from fallow.policies.cluster_use import ReadingIndex, job_use
from tests.readers.kubernetes.broken_api import pod

Body = dict[str, Any]


class Api:
    """An API server of one pod and some claims, in one version of their API."""

    def __init__(self, pod: Body, *claims: Body, version: str = "v1", refuses: bool = False) -> None:
        self.answers = {"pods": [pod], "nodes": [], "namespaces": []}
        self.claims, self.version, self.refuses = claims, version, refuses
        self.asked: list[str] = []

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        self.asked.append(question.path)
        if question.resource.plural != "resourceclaims":
            return KubeAnswer(200, {"items": self.answers[question.resource.plural]})
        if self.refuses:
            return KubeAnswer(403)
        is_known = question.resource.api == f"resource.k8s.io/{self.version}"
        return KubeAnswer(200, {"items": list(self.claims)}) if is_known else KubeAnswer(404)

    def jobs(self) -> tuple[ClusterJob, ...]:
        jobs = KubernetesEngine(self, SystemClock()).look().jobs
        assert not isinstance(jobs, Unknown)
        return jobs


def claiming(*names: str, gpus: int = 0, **status: Any) -> Body:
    """A pod that runs with claims of these names, and with so many GPUs by its limits."""
    made = pod("a", gpus=str(gpus))
    made["spec"]["resourceClaims"] = [{"name": f"c{at}", "resourceClaimName": name} for at, name in enumerate(names)]
    made["status"] |= status
    return made


def templated(**said: Any) -> Body:
    """A pod with a claim that is made from a template; `said` is what its status says of it."""
    made = claiming(**said)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    return made


def device(name: str, driver: str = "gpu.nvidia.com", **more: Any) -> Body:
    return {"request": "gpu", "driver": driver, "pool": "n1", "device": name, **more}


def claim(name: str, *devices: Any, namespace: str = "ml") -> Body:
    about = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    return {"metadata": about, "status": {"allocation": {"devices": {"results": list(devices)}}} if devices else {}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_pod_holds_what_its_claims_were_given_beside_its_limits(version: str) -> None:
    api = Api(claiming("two", "nic", gpus=1), claim("two", device("gpu-0"), device("gpu-1")), version=version)
    api.claims = (*api.claims, claim("nic", device("mlx5_0", "nic.example.com")))
    (job,) = api.jobs()
    assert job.gpu_count == 3
    assert [place.doubt for place in job.places if isinstance(place, PodGpus)] == [""]


def test_a_claim_that_was_made_from_a_template_is_found_by_the_status_of_its_pod() -> None:
    made = templated(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "a-gpu-x7"}])
    assert [job.gpu_count for job in Api(made, claim("a-gpu-x7", device("gpu-0"))).jobs()] == [1]


@pytest.mark.parametrize(
    "devices",
    [
        [device("mlx5_0", "nic.example.com")],
        [device("domain", "compute-domain.nvidia.com")],
        [device("gpu-0", adminAccess=True)],
    ],
)
def test_a_pod_whose_claims_are_known_to_be_no_gpus_holds_none(devices: list[Body]) -> None:
    assert Api(claiming("it"), claim("it", *devices)).jobs() == ()


def test_a_pod_that_turned_out_to_need_no_claim_holds_none() -> None:
    assert Api(templated(resourceClaimStatuses=[{"name": "gpu"}])).jobs() == ()


def test_without_a_pod_with_claims_nobody_asks_for_claims() -> None:
    api = Api(pod("a"))
    assert [job.gpu_count for job in api.jobs()] == [1]
    assert not [path for path in api.asked if "resourceclaims" in path]


@pytest.mark.parametrize(
    ("api", "why"),
    [
        (Api(claiming("it"), refuses=True), "lacks the right to list resourceclaims (resource.k8s.io)"),
        (Api(claiming("it"), version="v2"), "there is no such claim"),
        (Api(claiming("it"), claim("another", device("gpu-0"))), "there is no such claim"),
        (Api(claiming("it"), claim("it", device("gpu-0"), namespace="others")), "there is no such claim"),
        (Api(claiming("it"), claim("it")), "it was given nothing yet"),
        (Api(claiming("it"), claim("it", {"device": "gpu-0"})), "cannot be read"),
        (Api(claiming("it"), claim("it", "gpu-0")), "cannot be read"),
        (Api(templated()), "has no name yet"),
    ],
)
def test_a_pod_whose_claims_cannot_be_read_counts_with_a_gpu_of_which_nothing_is_known(api: Api, why: str) -> None:
    (job,) = api.jobs()
    assert job.gpu_count == 1
    seen = GpuReading(GpuKey("n1", "GPU-1"), 0, 0.0, pod_uid="uid-a")
    for gpus in ((), (seen,)):
        use = job_use(job, ReadingIndex(Readings(1.0, 60.0, gpus)))
        assert use.activity is JobActivity.UNKNOWN, "the one that was seen may not be all that it holds"
        assert why in str(use.reason)


def test_a_pod_that_waits_for_a_claim_makes_it_unknown_how_many_gpus_are_waited_for() -> None:
    waits = claiming("it")
    del waits["spec"]["nodeName"]
    said = "0/1 nodes are available: 1 cannot allocate all claims."
    waits["status"]["conditions"] = [{"type": "PodScheduled", "reason": "Unschedulable", "message": said}]
    pending = KubernetesEngine(Api(waits, claim("it")), SystemClock()).look().pending_gpus
    assert isinstance(pending, Unknown)
    assert "given nothing yet" in pending.why
