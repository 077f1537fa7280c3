"""Kubernetes ends pods by itself, each after its own grace: fallow leaves them to it, and that is no failure."""

import pytest

from fallow.core.actions import Kill
from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.kube_api import Json
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from fallow.readers.kubernetes.pods import gpu_pod


def test_that_pods_which_were_asked_to_end_still_end_is_no_failure() -> None:
    engine = KubernetesEngine(lambda _: Unknown("nobody is asked"), SystemClock())
    job = ClusterJob(Engine.KUBERNETES, "Deployment/ml/web", "web", "", (PodGpus("ml", "web-1", 1),), 0.0)
    killed = engine.kill(job, Kill(Reason("by_hand", user="ada")))
    assert (killed.ok, killed.words) == (True, "1 pod is still ending; Kubernetes kills each after its own grace")


@pytest.mark.parametrize(("written", "grace_s"), [({}, 30.0), ({"terminationGracePeriodSeconds": 600}, 600.0)])
def test_the_grace_of_a_pod_is_read(written: Json, grace_s: float) -> None:
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    about = {"namespace": "ml", "name": "web-1", "uid": "u"}
    pod = gpu_pod({"metadata": about, "spec": {"containers": [container], "nodeName": "n1", **written}})
    assert pod is not None
    assert pod.grace_s == grace_s
