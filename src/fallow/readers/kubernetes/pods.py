"""Read the pods that hold GPUs, or wait for them, and the nodes that have some."""

import re
from collections.abc import Mapping

from fallow.core.cluster import ClusterNode
from fallow.core.kube_api import Json, items, number, part, text
from fallow.core.kubernetes import KubeObject, time_s
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.kubernetes.metadata import object_of

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_GPUS = re.compile(r"nvidia\.com/(gpu|gpu\.shared|mig-[a-z0-9.]{1,40}(\.shared)?)", re.ASCII)
_MOST_GPUS = 1024
_COUNT = re.compile(r"\d{1,4}", re.ASCII)
_TOO_FEW = "Insufficient nvidia.com/"
_HAS_CLAIMS = "it has resource claims, through which it may hold GPUs"
_LONGEST_MESSAGE = 16 << 10
_USUAL_GRACE_S, _LONGEST_GRACE_S = 30.0, 86_400  # Kubernetes' own without a word, and a limit on what users write


@value
class GpuPod:
    """A pod that asked for GPUs."""

    itself: KubeObject
    gpus: int
    node: str
    """Empty while it waits for a node."""
    started_wall_s: float | Unknown
    doubt: str = ""
    """Why it may hold more than `gpus`, of which one stands for these then."""
    waits: bool = False
    """Whether the scheduler says that it has no node for want of GPUs."""
    grace_s: float = _USUAL_GRACE_S
    """How long after it was asked to end Kubernetes kills it."""


def gpu_pod(body: Json) -> GpuPod | None:
    """Return a pod that asked for GPUs, or for what may be some, and has not ended; None for any other."""
    spec, status = part(body, "spec"), part(body, "status")
    # What claims hold is not said here: one GPU stands for it, of which nothing is known.
    has_claims = bool(items(spec, "resourceClaims"))
    gpus = _gpus_of_pod(spec) + has_claims
    itself = object_of(body, "Pod", "") if gpus else None
    if itself is None or text(status, "phase") in ("Succeeded", "Failed"):
        return None
    started = text(status, "startTime") or text(part(body, "metadata"), "creationTimestamp")
    node = text(spec, "nodeName")
    waits = not node and _waits_for_gpus(status, has_claims=has_claims)
    grace_s = number(spec, "terminationGracePeriodSeconds")
    return GpuPod(
        itself,
        gpus,
        node,
        time_s(started),
        _HAS_CLAIMS if has_claims else "",
        waits,
        _USUAL_GRACE_S if grace_s is None else float(min(grace_s, _LONGEST_GRACE_S)),
    )


def gpu_node(body: Json) -> ClusterNode | None:
    """Return a node with GPUs; None for any other."""
    itself = object_of(body, "Node", "")
    gpus = _gpus_in(part(body, "status", "capacity"))
    if itself is None or not gpus:
        return None
    conditions = {text(each, "type"): text(each, "status") for each in items(part(body, "status"), "conditions")}
    trouble = None
    if part(body, "spec").get("unschedulable") is True:
        trouble = "cordoned"
    elif conditions.get("Ready", "True") != "True":
        trouble = "not ready"
    return ClusterNode(itself.name, gpus, trouble=trouble)


def _gpus_of_pod(spec: Json) -> int:
    """Return how many GPUs a pod has: those of all containers, or of the greediest that runs before them."""
    together = sum(_gpus_in(_wanted(each)) for each in items(spec, "containers"))
    before = max((_gpus_in(_wanted(each)) for each in items(spec, "initContainers")), default=0)
    return min(max(together, before), _MOST_GPUS)


def _waits_for_gpus(status: Json, *, has_claims: bool) -> bool:
    """Return whether a pod waits for GPUs. Its maker can hold it back, as by a gate, and wait for nothing."""
    for each in items(status, "conditions"):
        if text(each, "type") == "PodScheduled" and text(each, "reason") == "Unschedulable":
            # Of claims it is not said what they are for; what they hold is a doubt anyway.
            return has_claims or _TOO_FEW in text(each, "message", _LONGEST_MESSAGE)
    return False


def _wanted(container: Json) -> Mapping[str, object]:
    return part(container, "resources", "limits") or part(container, "resources", "requests")


def _gpus_in(resources: Mapping[str, object]) -> int:
    found = 0
    for name, amount in resources.items():
        if _GPUS.fullmatch(name) and _COUNT.fullmatch(str(amount)):
            found += int(str(amount))
    return min(found, _MOST_GPUS)
