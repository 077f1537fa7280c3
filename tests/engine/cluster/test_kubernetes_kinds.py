"""Kinds of other projects, on a real API server: what their controllers read is set. These are not run."""

from contextlib import suppress
from typing import Any

import pytest

from fallow.core.actions import Ask
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import connection
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.cluster.wake import parse_named, woken
from fallow.engine.machine.clock import SystemClock
from tests.real_kubernetes import ControlPlane, Namespace, Refused, pod_spec
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.more]

IDLE = Ask(Reason("idle", for_s=60.0, readings="nothing ran"))
KINDS = {
    "Notebook": ("kubeflow.org", "v1"),
    "RayCluster": ("ray.io", "v1"),
    "InferenceService": ("serving.kserve.io", "v1beta1"),
    "Workload": ("kueue.x-k8s.io", "v1beta1"),
}


@pytest.fixture(scope="module")
def kinds(plane: ControlPlane) -> ControlPlane:
    """A control plane that knows these kinds."""
    for kind, (group, version) in KINDS.items():
        plural = f"{kind.lower()}s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        served = {"name": version, "served": True, "storage": True, "schema": schema}
        plane.make(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
            }
        )
    for kind, (group, version) in KINDS.items():
        wait_for(plane, f"/apis/{group}/{version}/{kind.lower()}s")
    return plane


def wait_for(plane: ControlPlane, path: str) -> None:
    """Wait until a path is served."""

    def is_served() -> bool:
        with suppress(Refused):
            plane("GET", path)
            return True
        return False

    until(is_served, pause_s=0.1)


def make(space: Namespace, kind: str, spec: Any, **metadata: Any) -> Any:
    """Make an object, and a pod with a GPU that it controls."""
    group, version = KINDS[kind]
    made = space.make(f"{group}/{version}", kind, "it", spec, **metadata)
    owner = {
        "apiVersion": made["apiVersion"],
        "kind": kind,
        "name": "it",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    space.make("v1", "Pod", "of-it", pod_spec(1), labels={"app": "of-it"}, ownerReferences=[owner])
    space.let_run("of-it", 1)
    return made


def get(space: Namespace, kind: str) -> Any:
    group, version = KINDS[kind]
    return space.plane("GET", f"/apis/{group}/{version}/namespaces/{space.name}/{kind.lower()}s/it")


def asked(engine: KubernetesEngine, space: Namespace, kind: str) -> str:
    jobs = engine.look().jobs
    assert not isinstance(jobs, Unknown), jobs.why
    (job,) = (job for job in jobs if job.labels["namespace"] == space.name)
    assert (job.id, job.no_way) == (f"{kind}/{space.name}/it", None)
    assert job.interactive is (kind == "Notebook")
    outcome = engine.ask(job, IDLE)
    assert outcome.ok, outcome.words
    return outcome.words


def run_again(space: Namespace, kind: str, kubeconfig: str) -> str:
    api = connection(SystemClock(), kubeconfig)
    outcome = woken(api, parse_named(f"{kind.lower()}:{space.name}/it"))
    api.close()
    assert outcome.ok, outcome.words
    left = get(space, kind)["metadata"].get("annotations", {})
    assert not [name for name in left if name.startswith("fallow.")]
    return outcome.words


def test_a_notebook_of_kubeflow_gets_the_annotation_that_stops_it(
    kinds: ControlPlane, engine: KubernetesEngine, space: Namespace, kubeconfig: str
) -> None:
    make(space, "Notebook", {})
    asked(engine, space, "Notebook")
    assert "kubeflow-resource-stopped" in get(space, "Notebook")["metadata"]["annotations"]
    run_again(space, "Notebook", kubeconfig)
    assert "kubeflow-resource-stopped" not in get(space, "Notebook")["metadata"].get("annotations", {})


def test_a_ray_cluster_is_suspended(
    kinds: ControlPlane, engine: KubernetesEngine, space: Namespace, kubeconfig: str
) -> None:
    make(space, "RayCluster", {"rayVersion": "2.9.0"})
    assert asked(engine, space, "RayCluster") == "suspended"
    assert get(space, "RayCluster")["spec"] == {"rayVersion": "2.9.0", "suspend": True}
    run_again(space, "RayCluster", kubeconfig)
    assert get(space, "RayCluster")["spec"]["suspend"] is False


def test_an_inference_service_may_scale_to_zero(
    kinds: ControlPlane, engine: KubernetesEngine, space: Namespace, kubeconfig: str
) -> None:
    make(space, "InferenceService", {"predictor": {"minReplicas": 3, "model": {"name": "llama"}}})
    asked(engine, space, "InferenceService")
    assert get(space, "InferenceService")["spec"]["predictor"] == {"minReplicas": 0, "model": {"name": "llama"}}
    assert run_again(space, "InferenceService", kubeconfig) == "its minReplicas is 3 again"
    assert get(space, "InferenceService")["spec"]["predictor"]["minReplicas"] == 3


def test_what_kueue_runs_is_stopped_by_its_workload(
    kinds: ControlPlane, engine: KubernetesEngine, space: Namespace, kubeconfig: str
) -> None:
    made = make(space, "RayCluster", {}, labels={"kueue.x-k8s.io/queue-name": "team"})
    reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "it", "uid": made["metadata"]["uid"]}
    space.make("kueue.x-k8s.io/v1beta1", "Workload", "other", {"active": True})
    space.make("kueue.x-k8s.io/v1beta1", "Workload", "it", {"active": True}, ownerReferences=[reference])
    assert asked(engine, space, "RayCluster") == "Kueue was told to deactivate its Workload"
    assert get(space, "Workload")["spec"]["active"] is False
    assert "suspend" not in get(space, "RayCluster")["spec"]
    run_again(space, "RayCluster", kubeconfig)
    assert get(space, "Workload")["spec"]["active"] is True
