"""Each kind of object is stopped in its own way, and is as it was once it is woken."""

from copy import deepcopy
from typing import Any

import pytest

from fallow.actuators.kubernetes.stop import Stop, stop
from fallow.actuators.kubernetes.wake import wake
from fallow.core.actions import CancelWarning, Warn
from fallow.core.findings import Outcome
from fallow.core.kube_api import CONFLICT, NOT_FOUND, KubeAnswer, Question
from fallow.core.kubernetes import KINDS, QUEUE, KubeObject
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from tests.readers.kubernetes.broken_api import pod

Body = dict[str, Any]


class Objects:
    """An API server with a few objects, by their paths; a change needs the version that was read."""

    def __init__(self, **by_plural: Body) -> None:
        self.found = by_plural

    def __call__(self, question: Question) -> KubeAnswer | Unknown:
        plural = question.resource.plural
        if question.does == "list":
            return KubeAnswer(200, {"items": [self.found[plural]] if plural in self.found else []})
        if question.does == "create":
            return KubeAnswer(201, {})
        if plural not in self.found:
            return KubeAnswer(NOT_FOUND)
        there = self.found[plural]
        if question.does == "patch":
            wanted = dict(question.body or {})
            version = wanted["metadata"].get("resourceVersion")  # type: ignore[index,attr-defined]
            if version not in (None, there["metadata"]["resourceVersion"]):
                return KubeAnswer(CONFLICT)
            merge(there, {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": "next"}})  # type: ignore[dict-item]
            there["metadata"]["resourceVersion"] = f"{int(version or 0) + 1}"
        return KubeAnswer(200, deepcopy(there))


def merge(into: Body, change: Body) -> None:
    """Merge as RFC 7386 says."""
    for name, each in change.items():
        if each is None:
            into.pop(name, None)
        elif isinstance(each, dict):
            merge(into.setdefault(name, {}), each)
        else:
            into[name] = each


def made(name: str, spec: Body, **metadata: Any) -> Body:
    about = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"}
    return {"metadata": {**about, **metadata}, "spec": spec}


def stopped(api: Objects, kind: str) -> Outcome:
    known = next(each for each in KINDS.values() if each.name == kind)
    top = KubeObject(kind, known.resource.group, "ml", "it", "uid-it", 1)
    return stop(Stop(api, top, known, "idle for 2h", 1.8e9))


@pytest.mark.parametrize(
    ("kind", "spec", "then"),
    [
        ("Deployment", {"replicas": 3}, {"replicas": 0}),
        ("Job", {"parallelism": 2}, {"parallelism": 2, "suspend": True}),
        ("RayCluster", {}, {"suspend": True}),
        ("InferenceService", {"predictor": {"minReplicas": 3}}, {"predictor": {"minReplicas": 0}}),
        ("Notebook", {}, {}),
    ],
)
def test_what_was_stopped_is_as_it_was_once_it_is_woken(kind: str, spec: Body, then: Body) -> None:
    known = next(each for each in KINDS.values() if each.name == kind)
    api = Objects(**{known.resource.plural: made("it", deepcopy(spec))})
    there = api.found[known.resource.plural]
    assert stopped(api, kind).ok
    assert there["spec"] == then
    assert there["metadata"]["annotations"]["fallow.stopped-because"] == "idle for 2h"
    assert ("kubeflow-resource-stopped" in there["metadata"]["annotations"]) is (kind == "Notebook")
    assert wake(api, known, "ml", "it").ok
    assert {name: each for name, each in there["spec"].items() if each is not False} == spec
    assert there["metadata"]["annotations"] == {}
    assert wake(api, known, "ml", "it") == Outcome(False, "fallow did not stop it")


def test_what_kueue_runs_is_stopped_by_its_workload() -> None:
    workload = made("w", {"active": True}, ownerReferences=[{"uid": "uid-it"}])
    api = Objects(rayclusters=made("it", {}, labels={QUEUE: "team"}), workloads=workload)
    assert stopped(api, "RayCluster").words == "Kueue was told to deactivate its Workload"
    assert (workload["spec"], api.found["rayclusters"]["spec"]) == ({"active": False}, {})
    assert wake(api, KINDS["ray.io", "RayCluster"], "ml", "it").ok
    assert workload["spec"] == {"active": True}


def test_a_job_that_this_cluster_cannot_suspend_is_left_as_it_was() -> None:
    """Kubernetes before 1.21 passes over the field."""

    class Older(Objects):
        def __call__(self, question: Question) -> KubeAnswer | Unknown:
            answer = super().__call__(question)
            self.found["jobs"]["spec"] = {}
            return (
                KubeAnswer(answer.status, deepcopy(self.found["jobs"])) if isinstance(answer, KubeAnswer) else answer
            )

    api = Older(jobs=made("it", {}))
    done = stopped(api, "Job")
    assert (done.ok, "cannot suspend a Job" in done.words) == (False, True)
    assert api.found["jobs"]["metadata"]["annotations"] == {}


def test_a_warning_is_written_on_the_object_and_taken_back() -> None:
    it = made("it", {"replicas": 2})
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it", "uid": "uid-it", "controller": True}
    runs = pod("a", ownerReferences=[above])
    engine = KubernetesEngine(Objects(deployments=it, pods=runs), SystemClock())
    jobs = engine.look().jobs
    assert not isinstance(jobs, Unknown)
    (job,) = jobs
    assert engine.warn(job, Warn(Reason("idle", for_s=3600.0, readings="nothing ran"), 600.0)).ok
    assert set(it["metadata"]["annotations"]) == {"fallow.idle-since", "fallow.stops-at"}
    assert engine.cancel(job, CancelWarning(Reason("works", readings="it works"))).ok
    assert it["metadata"]["annotations"] == {}
