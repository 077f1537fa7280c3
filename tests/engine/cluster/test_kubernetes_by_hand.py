"""`fallow stop deployment:NAMESPACE/NAME` on a real control plane: done with the rights that the person has there."""

import json

import pytest

from tests.conftest import Fallow
from tests.real_kubernetes import ControlPlane, Namespace

pytestmark = [pytest.mark.engine, pytest.mark.more]


def replicas(space: Namespace, name: str) -> int:
    return int(space.get("Deployment", name)["spec"]["replicas"])


LOOKS = [
    {"apiGroups": [""], "resources": ["pods", "namespaces", "nodes"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
]


def test_a_deployment_is_stopped_by_hand_with_the_rights_of_the_person_and_resumed(
    plane: ControlPlane, space: Namespace, kubeconfig: str, simulated: Fallow
) -> None:
    space.run("Deployment", "llama", replicas=2, gpus=2)
    space.run("Deployment", "other", replicas=1)
    named = f"deployment:{space.name}/llama"
    simulated.environ["KUBECONFIG"] = kubeconfig

    planned = simulated("stop", named, "--dry-run")
    assert planned.stdout == f"{named}: 4 GPUs; would scale it to zero\n", planned.stderr
    assert (planned.returncode, replicas(space, "llama")) == (0, 2)
    assert space.events("llama") == []
    unasked = simulated("stop", named)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr

    blind = simulated("stop", named, "--yes", KUBECONFIG=plane.account(f"{space.name}-nobody", space.name, []))
    assert blind.returncode not in (0, 1)
    assert "lacks the right to list pods in all namespaces" in blind.stderr
    watcher = simulated("stop", named, "--yes", KUBECONFIG=plane.account(f"{space.name}-watcher", space.name, LOOKS))
    assert watcher.returncode == 77
    assert watcher.stdout.startswith(f"left {named}: ")
    assert f"lacks the right to patch deployments (apps) in the namespace {space.name}" in watcher.stdout
    assert replicas(space, "llama") == 2
    assert "fallow.stopped-at" not in space.get("Deployment", "llama")["metadata"]["annotations"]

    space.annotate("Deployment", "llama", {"fallow.protect": "yes"})
    kept = simulated("stop", named, "--yes", "--json")
    (left,) = json.loads(kept.stdout)["jobs"]
    assert (kept.returncode, left["outcome"], left["reason"]) == (1, "left", "protected_annotation")
    assert replicas(space, "llama") == 2
    space.annotate("Deployment", "llama", {"fallow.protect": None})

    done = simulated("stop", named, "--yes")
    assert done.stdout == f"stopped {named}: scaled from 2 to zero\n", done.stderr
    assert (done.returncode, replicas(space, "llama"), space.pods("llama")) == (0, 0, [])
    marks = space.get("Deployment", "llama")["metadata"]["annotations"]
    assert marks["fallow.stopped-from"] == "2"
    assert "stopped by hand by" in marks["fallow.stopped-because"]
    assert [each["reason"] for each in space.events("llama")] == ["FallowStopped"]
    assert "stopped by hand by" in simulated("why", named).stdout
    gone = simulated("stop", named, "--yes")
    assert "holds no GPU now" in gone.stderr
    assert (replicas(space, "other"), space.events("other")) == (1, [])

    back = simulated("wake", named)
    assert back.stdout == f"{named} was woken: scaled to 2\n", back.stderr
    assert len(space.let_run("llama", 2)) == 2
