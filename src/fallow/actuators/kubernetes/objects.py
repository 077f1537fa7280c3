"""The only file that changes objects of a Kubernetes cluster.

Each change names the object by its uid and the version that was read, so that another one of the same name, or one
that somebody has changed meanwhile, is left as it is.
"""

from collections.abc import Mapping

from fallow.core.findings import Outcome
from fallow.core.kube_api import CONFLICT, Json, KubeAnswer, KubeApi, Question, Resource, part, text
from fallow.core.kubernetes import EVENTS, PODS, KubeObject, time_text
from fallow.core.units import shortened
from fallow.core.unknown import Unknown

_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 200
Annotations = Mapping[str, str | None]
"""What is written on an object; None takes an annotation away."""
_EVICTIONS = ("policy/v1", "policy/v1beta1")  # 1.22 and newer know the first, those before it only the second


def patch(
    api: KubeApi,
    resource: Resource,
    read: Json,
    *,
    annotations: Annotations | None = None,
    spec: Json | None = None,
    of_part: str = "",
) -> KubeAnswer | str:
    """Change the object that was read, if it is still as it was; return the answer, or why it was not done."""
    about = part(read, "metadata")
    metadata: dict[str, object] = {}
    if version := text(about, "resourceVersion"):
        metadata["resourceVersion"] = version
    if not of_part:
        metadata["uid"] = text(about, "uid")
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: dict[str, object] = {"metadata": metadata}
    if spec is not None:
        body["spec"] = spec
    namespace, name = text(about, "namespace", _LONGEST_NAME + 100), text(about, "name", _LONGEST_NAME + 100)
    return _done(api, Question("patch", resource, namespace, name, of_part, body))


def scale(api: KubeApi, resource: Resource, read: Json, replicas: int) -> KubeAnswer | str:
    """Set how many replicas the object that was read should have."""
    return patch(api, resource, read, spec={"replicas": replicas}, of_part="scale")


def outcome_of(done: KubeAnswer | str, words: str) -> Outcome | None:
    """Return what came of a change; None if somebody changed the object meanwhile, so that it is to be read again."""
    if isinstance(done, str):
        return Outcome(False, done)
    return None if done.status == CONFLICT else Outcome(True, words)


def evict(api: KubeApi, pod: KubeObject) -> KubeAnswer | str:
    """Have a pod evicted, which a PodDisruptionBudget may refuse."""
    answer: KubeAnswer | str = "nothing was asked"
    for version in _EVICTIONS:
        body: Json = {
            "apiVersion": version,
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        question = Question("create", PODS, pod.namespace, pod.name, "eviction", body)
        asked = api(question)
        if isinstance(asked, Unknown):
            return asked.why
        answer = asked if asked.ok else asked.why_not(question)
        if asked.status not in (400, 404, 415):
            return answer
    return answer


def tell(api: KubeApi, about: KubeObject, reason: str, message: str, now_wall_s: float, *, warning: bool) -> Outcome:
    """Write an Event about an object, where `kubectl describe` and `kubectl get events` show it."""
    kind = about.known
    now = time_text(now_wall_s)
    body: Json = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.name[:_LONGEST_NAME]}.fallow-", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": "v1" if kind is None else kind.resource.api,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "reason": reason,
        "message": shortened(message, _LONGEST_MESSAGE),
        "type": "Warning" if warning else "Normal",
        "source": {"component": "fallow"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    answer = _done(api, Question("create", EVENTS, about.namespace, body=body))
    return Outcome(False, answer) if isinstance(answer, str) else Outcome(True, "an Event says so")


def _done(api: KubeApi, question: Question) -> KubeAnswer | str:
    answer = api(question)
    if isinstance(answer, Unknown):
        return answer.why
    if answer.ok or answer.status == 409:
        return answer
    return answer.why_not(question)
