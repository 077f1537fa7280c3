"""What people of one namespace make changes nothing for other namespaces, on a real control plane."""

from collections.abc import Iterator

import pytest

from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import plugin_runner
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from fallow.readers.kubernetes.connection import KubeConnection
from tests.real_kubernetes import Namespace, pod_spec

pytestmark = [pytest.mark.engine, pytest.mark.more]

MOST_BYTES = 1 << 20


@pytest.fixture
def engine(kubeconfig: str) -> Iterator[KubernetesEngine]:
    """The engine, which reads a sixty-fourth of what it reads elsewhere."""
    clock = SystemClock()
    made = KubernetesEngine(KubeConnection(clock, plugin_runner(clock), kubeconfig, most_bytes=MOST_BYTES), clock)
    yield made
    made.close()


def ids(engine: KubernetesEngine) -> set[str]:
    jobs = engine.look().jobs
    assert not isinstance(jobs, Unknown), jobs.why
    return {job.id for job in jobs}


def test_pods_that_are_too_long_together_keep_no_job_of_another_namespace_from_being_read(
    engine: KubernetesEngine, space: Namespace
) -> None:
    others = Namespace(space.plane)
    others.run("Deployment", "shop", replicas=1)
    spec = pod_spec(0)
    spec["containers"][0]["env"] = [{"name": "LONG", "value": "x" * (MOST_BYTES // 4)}]
    for at in range(9):
        space.make("v1", "Pod", f"long-{at}", spec)
    found = ids(engine)
    for at in range(9):
        space.plane("DELETE", f"/api/v1/namespaces/{space.name}/pods/long-{at}")
    assert f"Deployment/{others.name}/shop" in found


@pytest.mark.parametrize(
    ("kind", "name", "called"),
    [
        ("Deployment/vision", "x", "Deploymentvision/{}/x"),
        ("alice's job", "x", "Alicesjob/{}/x"),
        ("-", "../../vision/deployments/shop", "Object/{}/-..-vision-deployments-shop"),
        ("workflow", "..", "Workflow/{}/-"),
    ],
)
def test_no_reference_of_a_pod_reads_as_another_namespace_or_as_a_user(
    engine: KubernetesEngine, space: Namespace, kind: str, name: str, called: str
) -> None:
    forged = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "1", "controller": True}
    space.make("v1", "Pod", "hers", pod_spec(1), ownerReferences=[forged])
    found = ids(engine)
    space.plane("DELETE", f"/api/v1/namespaces/{space.name}/pods/hers")
    assert called.format(space.name) in found
