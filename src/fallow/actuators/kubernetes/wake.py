"""Let what fallow stopped run again, as the annotations on it say. Anybody may have written these."""

from fallow.actuators.kubernetes.objects import outcome_of, patch, scale
from fallow.actuators.kubernetes.stop import NO_WARNING, NOT_STOPPED, workload_of
from fallow.core.findings import Outcome
from fallow.core.kube_api import (
    NOT_FOUND,
    Json,
    KubeAnswer,
    KubeApi,
    Question,
    items,
    number,
    part,
    text,
    texts,
)
from fallow.core.kubernetes import (
    NOTEBOOK_STOPPED,
    QUEUE,
    STOPPED_AT,
    WORKLOADS,
    Kind,
    KubeObject,
    Way,
    replicas_before,
)
from fallow.core.unknown import Unknown

_TRIES = 4
_CLEAN = {**NO_WARNING, **NOT_STOPPED}
_UNREADABLE = "what it was before cannot be read from its annotations; scale it by hand"


def how(kind: Kind, annotations: dict[str, str]) -> str | None:
    """Return what waking an object does, after "would"; None if that cannot be told from its annotations."""
    count = replicas_before(annotations)
    match kind.way:
        case Way.SCALE:
            return None if count is None else f"scale it to {count}"
        case Way.MIN_REPLICAS:
            return None if count is None else f"set its minReplicas to {count}"
        case Way.SUSPEND:
            return "end its suspension"
        case Way.NOTEBOOK:
            return "start the notebook"
        case _:
            return None


def wake(api: KubeApi, kind: Kind, namespace: str, name: str) -> Outcome:
    """Let an object run again, if fallow stopped it and nobody has started it since."""
    question = Question("get", kind.resource, namespace, name)
    for _ in range(_TRIES):
        answer = api(question)
        if isinstance(answer, Unknown):
            return Outcome(False, answer.why)
        if answer.status == NOT_FOUND:
            return Outcome(False, f"there is no {kind.name} {name} in the namespace {namespace}")
        if not answer.ok:
            return Outcome(False, answer.why_not(question))
        about = part(answer.body, "metadata")
        annotations = texts(about, "annotations")
        above = next((each for each in items(about, "ownerReferences") if each.get("controller") is True), None)
        if above is not None:
            what = f"{text(above, 'kind')} {text(above, 'name')}"
            return Outcome(False, f"{what} controls it; wake that instead")
        if STOPPED_AT not in annotations:
            return Outcome(False, "fallow did not stop it")
        if how(kind, annotations) is None:
            return Outcome(False, _UNREADABLE)
        done = _woken(api, kind, answer.body, annotations)
        if done is not None:
            return done
    return Outcome(False, "somebody changes it again and again; try once more")


def _woken(api: KubeApi, kind: Kind, read: Json, annotations: dict[str, str]) -> Outcome | None:
    spec, count = part(read, "spec"), replicas_before(annotations)
    match kind.way:
        case Way.SCALE if number(spec, "replicas") != 0:
            return _cleaned(api, kind, read, "it runs already")
        case Way.SCALE if count is not None:
            return _then_cleaned(api, kind, scale(api, kind.resource, read, count), read, f"scaled to {count}")
        case Way.SUSPEND if QUEUE in texts(part(read, "metadata"), "labels"):
            return _activated(api, kind, read)
        case Way.SUSPEND:
            return outcome_of(
                patch(api, kind.resource, read, annotations=_CLEAN, spec={"suspend": False}),
                "its suspension has ended",
            )
        case Way.NOTEBOOK:
            clean = {**_CLEAN, NOTEBOOK_STOPPED: None}
            return outcome_of(patch(api, kind.resource, read, annotations=clean), "Kubeflow starts the notebook")
        case Way.MIN_REPLICAS if count is not None:
            least = {"predictor": {"minReplicas": count}}
            return outcome_of(
                patch(api, kind.resource, read, annotations=_CLEAN, spec=least), f"its minReplicas is {count} again"
            )
        case _:
            return Outcome(False, _UNREADABLE)


def _activated(api: KubeApi, kind: Kind, read: Json) -> Outcome | None:
    about = part(read, "metadata")
    top = KubeObject(
        kind.name, kind.resource.group, text(about, "namespace"), text(about, "name"), text(about, "uid")
    )
    workload = workload_of(api, top)
    if isinstance(workload, str):
        return Outcome(False, workload)
    done = patch(api, WORKLOADS, workload, spec={"active": True})
    return _then_cleaned(api, kind, done, read, "Kueue admits it again when there is room")


def _then_cleaned(api: KubeApi, kind: Kind, done: KubeAnswer | str, read: Json, words: str) -> Outcome | None:
    """Take the annotations away after it was done. If they stay, the next call finds that it runs."""
    outcome = outcome_of(done, words)
    if outcome is None or not outcome.ok:
        return outcome
    patch(api, kind.resource, {"metadata": {**part(read, "metadata"), "resourceVersion": None}}, annotations=_CLEAN)
    return outcome


def _cleaned(api: KubeApi, kind: Kind, read: Json, words: str) -> Outcome | None:
    return outcome_of(patch(api, kind.resource, read, annotations=_CLEAN), words)
