"""A real control plane: what runs pods is found, warned, stopped and resumed with the manifest's rights alone."""

import json

import pytest

from fallow.core.actions import Ask, Warn
from fallow.core.cluster import ClusterJob
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import KubernetesEngine, kubernetes_engine
from fallow.engine.machine.clock import SystemClock
from tests.conftest import Fallow
from tests.real_kubernetes import ADMIN, MANIFESTS, ControlPlane, Namespace, pod_spec
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.more]

IDLE = Reason("idle", for_s=2400.0, readings="nothing ran on its GPUs")


def jobs_in(engine: KubernetesEngine, space: Namespace) -> dict[str, ClusterJob]:
    jobs = engine.look().jobs
    assert not isinstance(jobs, Unknown), jobs.why
    return {job.id: job for job in jobs if job.labels["namespace"] == space.name}


def only_job(engine: KubernetesEngine, space: Namespace) -> ClusterJob:
    (job,) = jobs_in(engine, space).values()
    return job


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_idle_owner_is_warned_annotated_scaled_to_zero_and_resumed(
    engine: KubernetesEngine, space: Namespace, fallow: Fallow, kind: str, kubeconfig: str
) -> None:
    pods = space.run(kind, "llama", replicas=2, gpus=2)
    job = only_job(engine, space)
    assert job.id == f"{kind}/{space.name}/llama"
    assert [str(place) for place in job.places] == [f"{space.name}/{pod}" for pod in pods]
    assert job.gpu_count == 4
    assert (job.opt_out, job.no_way) == (None, None)

    warned = engine.warn(job, Warn(IDLE, 600.0))
    assert warned.ok, warned.words
    (event,) = space.events("llama")
    assert event["type"] == "Warning"
    assert event["involvedObject"]["uid"] == space.get(kind, "llama")["metadata"]["uid"]
    assert "scaled to zero in 10m" in event["message"]
    assert "fallow.protect=yes" in event["message"]
    assert {"fallow.idle-since", "fallow.stops-at"} <= set(annotations(space, kind))

    asked = engine.ask(only_job(engine, space), Ask(IDLE))
    assert (asked.ok, asked.words) == (True, "scaled from 2 to zero")
    until(lambda: space.pods("llama"), lambda left: not left, pause_s=0.05)
    left = annotations(space, kind)
    assert left["fallow.stopped-from"] == "2"
    assert "fallow.stops-at" not in left
    assert jobs_in(engine, space) == {}

    named = f"{kind.lower()}:{space.name}/llama"
    listed = fallow("wake", "--list", "--json", KUBECONFIG=kubeconfig)
    stopped = [each for each in json.loads(listed.stdout)["stopped"] if each["namespace"] == space.name]
    assert [(each["subject"], each["would"]) for each in stopped] == [(named, "scale it to 2")]
    done = fallow("wake", named, KUBECONFIG=kubeconfig)
    assert (done.returncode, done.stdout) == (0, f"{named} was woken: scaled to 2\n"), done.stderr
    assert len(space.let_run("llama", 2)) == 2
    assert not [name for name in annotations(space, kind) if name.startswith("fallow.")]
    again = fallow("wake", named, KUBECONFIG=kubeconfig)
    assert again.returncode == 1
    assert "fallow did not stop it" in again.stderr


def annotations(space: Namespace, kind: str) -> dict[str, str]:
    found: dict[str, str] = space.get(kind, "llama")["metadata"].get("annotations", {})
    return found


def test_what_was_protected_or_changed_after_the_look_is_not_stopped(
    engine: KubernetesEngine, space: Namespace, plane: ControlPlane
) -> None:
    space.run("Deployment", "llama")
    path = f"/apis/apps/v1/namespaces/{space.name}/deployments/llama"
    job = only_job(engine, space)
    space.annotate("Deployment", "llama", {"fallow.protect": "yes"})
    refused = engine.ask(job, Ask(IDLE))
    assert not refused.ok
    assert "protects it" in refused.words
    space.annotate("Deployment", "llama", {"fallow.protect": None})
    job = only_job(engine, space)
    plane("PATCH", path, {"spec": {"replicas": 3}})
    changed = engine.ask(job, Ask(IDLE))
    assert (changed.ok, changed.words) == (False, "somebody has changed it since it was judged")

    job = only_job(engine, space)
    plane("DELETE", path)
    space.create("Deployment", "llama", 1)
    another = engine.ask(job, Ask(IDLE))
    assert (another.ok, another.words) == (False, "another Deployment has its name now")
    assert space.get("Deployment", "llama")["spec"]["replicas"] == 1


def test_a_bare_pod_is_evicted_if_it_is_still_the_same(engine: KubernetesEngine, space: Namespace) -> None:
    space.make("v1", "Pod", "alone", pod_spec(1, "nvidia.com/mig-1g.5gb"), labels={"app": "alone"})
    space.let_run("alone", 1)
    job = only_job(engine, space)
    assert (job.id, job.gpu_count) == (f"Pod/{space.name}/alone", 1)
    assert engine.warn(job, Warn(IDLE, 600.0)).ok
    assert space.events("alone")
    assert engine.way(job, Ask(IDLE)) == "evict its pod"
    asked = engine.ask(job, Ask(IDLE))
    assert (asked.ok, asked.words) == (True, "its pod is evicted")
    until(lambda: space.pods("alone"), lambda left: not left, pause_s=0.05)


@pytest.mark.parametrize("by", ["the pod", "what is between"])
def test_a_pod_that_names_what_runs_pods_elsewhere_does_not_get_that_stopped_or_protected(
    engine: KubernetesEngine, space: Namespace, plane: ControlPlane, by: str
) -> None:
    space.create("Deployment", "shop", 2, 0)
    uid = space.get("Deployment", "shop")["metadata"]["uid"]
    forged = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": uid, "controller": True}
    hers = Namespace(plane)
    if by == "what is between":
        hers.create("ReplicaSet", "idle", 1)
        path = f"/apis/apps/v1/namespaces/{hers.name}/replicasets/idle"
        plane("PATCH", path, {"metadata": {"ownerReferences": [forged]}})
    else:
        protects = {"fallow.protect": "yes"}
        about = {"labels": {"app": "idle"}, "ownerReferences": [forged], "annotations": protects}
        hers.make("v1", "Pod", "idle", pod_spec(1), **about)
    hers.let_run("idle", 1)
    assert jobs_in(engine, space) == {}
    job = only_job(engine, hers)
    assert job.id == f"Deployment/{hers.name}/shop"
    assert job.no_way
    assert not engine.ask(job, Ask(IDLE)).ok
    assert space.get("Deployment", "shop")["spec"]["replicas"] == 2


def test_without_a_right_nothing_is_done_and_the_right_is_named(
    plane: ControlPlane, space: Namespace, engine: KubernetesEngine
) -> None:
    """One ServiceAccount may not list pods, another one may do everything but scale."""
    space.run("Deployment", "llama")
    job = only_job(engine, space)
    nobody = with_rules(plane, space, [])
    looked = nobody.look().jobs
    assert isinstance(looked, Unknown)
    assert "lacks the right to list pods in all namespaces" in looked.why

    almost = with_rules(
        plane,
        space,
        [
            {"apiGroups": [""], "resources": ["pods", "namespaces", "nodes"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list", "patch"]},
        ],
    )
    assert job.id in jobs_in(almost, space)
    warned = almost.warn(job, Warn(IDLE, 600.0))
    assert warned.ok
    assert f"lacks the right to create events in the namespace {space.name}" in warned.words
    asked = almost.ask(only_job(almost, space), Ask(IDLE))
    for each in (nobody, almost):
        each.close()
    assert (asked.ok, asked.not_permitted) == (False, True)
    assert f"lacks the right to patch deployments/scale (apps) in the namespace {space.name}" in asked.words
    assert space.get("Deployment", "llama")["spec"]["replicas"] == 2
    assert "fallow.stopped-at" not in annotations(space, "Deployment")


def with_rules(plane: ControlPlane, space: Namespace, rules: list[dict[str, list[str]]]) -> KubernetesEngine:
    """Return the engine with the rights of a ServiceAccount that has these and no others."""
    return kubernetes_engine(SystemClock(), plane.account(f"{space.name}-{len(rules)}", space.name, rules))


def test_the_daemons_of_the_manifests_are_taken_by_the_api_server_and_their_configs_by_fallow(
    plane: ControlPlane, simulated: Fallow
) -> None:
    token = simulated.home / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o400)
    for name, account in (("daemonset", "fallow-node"), ("controller", "fallow-controller")):
        plane.apply((MANIFESTS / f"{name}.yaml").read_text())
        text = plane("GET", f"/api/v1/namespaces/fallow/configmaps/{account}")["data"]["fallow.toml"]
        path = simulated.home / f"{name}.toml"
        path.write_text(text.replace("/etc/fallow-token/token", str(token)))
        checked = simulated("check", str(path))
        assert checked.returncode == 0, checked.stdout + checked.stderr
    made = plane("GET", "/apis/apps/v1/namespaces/fallow/daemonsets/fallow-node", token=ADMIN)
    assert made["spec"]["template"]["spec"]["hostPID"] is True
