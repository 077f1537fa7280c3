"""Read resource claims: with dynamic allocation a pod holds GPUs through its claims, and not by its limits.

What a claim was given is said by the claim alone. One that cannot be read, or that is not given anything yet, may
hold GPUs: that is a doubt, and never none.
"""

from collections.abc import Iterable, Iterator

from fallow.core.kube_api import Json, KubeApi, items, part, text
from fallow.core.kubernetes import CLAIMS
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.readers.kubernetes.metadata import listed, object_of
from fallow.readers.kubernetes.pods import MOST_GPUS, GpuPod

_DRIVER = "gpu.nvidia.com"
_Name = tuple[str, str]
_Given = dict[_Name, int | Unknown]
_NOT_GIVEN = Unknown("it was given nothing yet")
_NOT_READ = Unknown("what it was given cannot be read")
_NOT_THERE = Unknown("there is no such claim")


def with_claims(api: KubeApi, pods: Iterable[GpuPod]) -> Iterator[GpuPod]:
    """Yield the pods with the GPUs that their claims hold; those that hold none at all are left out."""
    given: _Given | Unknown | None = None
    for pod in pods:
        if not pod.claims:
            yield pod
            continue
        if given is None:
            given = _all_given(api)
        more = _held(pod, given)
        if isinstance(more, Unknown):
            yield replace(pod, gpus=pod.gpus + 1, doubt=more.why)
        elif pod.gpus + more:
            yield replace(pod, gpus=min(pod.gpus + more, MOST_GPUS))


def _held(pod: GpuPod, given: _Given | Unknown) -> int | Unknown:
    """Return how many GPUs the claims of a pod hold."""
    if isinstance(given, Unknown):
        return given
    total = 0
    for claim in pod.claims:
        name = (pod.itself.namespace, claim)
        held = given.get(name, _NOT_THERE) if claim else _NOT_THERE
        if isinstance(held, Unknown):
            return Unknown(f"the resource claim {claim}: {held.why}" if claim else "a claim of it has no name yet")
        total += held
    return total


def _all_given(api: KubeApi) -> _Given | Unknown:
    """Return how many GPUs each claim holds, by namespace and name, in the first version of the API that has any."""
    for resource in CLAIMS:
        found = listed(api, resource, _given, may_be_absent=True)
        if isinstance(found, Unknown):
            return found
        if found:
            return dict(found)
    return {}


def _given(body: Json) -> tuple[_Name, int | Unknown] | None:
    claim = object_of(body, "ResourceClaim", CLAIMS[0].group)
    if claim is None:
        return None
    name, allocation = (claim.namespace, claim.name), part(body, "status", "allocation")
    if not allocation:
        return name, _NOT_GIVEN
    results = items(part(allocation, "devices"), "results")
    if not results or not all(text(each, "driver") for each in results):
        return name, _NOT_READ
    # Who has administrative access watches a GPU that somebody else holds.
    devices = {
        (text(each, "pool"), text(each, "device"))
        for each in results
        if each.get("driver") == _DRIVER and each.get("adminAccess") is not True
    }
    return name, len(devices)
