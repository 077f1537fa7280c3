"""Stop what runs pods, so that they do not come back, and remember on the object how it was.

Before anything is changed, the object is read again: it must be the one that was judged, unchanged since, and not
protected meanwhile. A change that comes in between makes the API server refuse ours, and we look once more.
"""

from collections.abc import Callable

from fallow.actuators.kubernetes.objects import Annotations, evict, outcome_of, patch, scale
from fallow.core.findings import Outcome
from fallow.core.kube_api import (
    CONFLICT,
    FORBIDDEN,
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
    IDLE_SINCE,
    NOTEBOOK_STOPPED,
    QUEUE,
    STOPPED_AT,
    STOPPED_FROM,
    STOPPED_WHY,
    STOPS_AT,
    WORKLOADS,
    Kind,
    KubeObject,
    Way,
    opt_out,
    time_text,
)
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value

_TRIES = 4
_LONGEST_WHY = 300
NO_WARNING: Annotations = {IDLE_SINCE: None, STOPS_AT: None}
NOT_STOPPED: Annotations = {STOPPED_AT: None, STOPPED_FROM: None, STOPPED_WHY: None}
_CHANGED = "somebody changes it again and again; it is left as it is"


@value
class Stop:
    """What is stopped, why, and when."""

    api: KubeApi
    top: KubeObject
    """As it was when it was judged."""
    kind: Kind
    why: str
    now_wall_s: float

    def marks(self, replicas: int | None = None) -> Annotations:
        """Return what is written on the object, for `fallow wake`."""
        marks = {STOPPED_AT: time_text(self.now_wall_s), STOPPED_WHY: printable(self.why)[:_LONGEST_WHY]}
        return {**NO_WARNING, **marks, STOPPED_FROM: None if replicas is None else str(replicas)}


def stop(wanted: Stop) -> Outcome:
    """Stop the object in the way of its kind; the outcome says whether a right was missing."""
    refused: list[Question] = []

    def heard(question: Question) -> KubeAnswer | Unknown:
        answer = wanted.api(question)
        if isinstance(answer, KubeAnswer) and answer.status == FORBIDDEN:
            refused.append(question)
        return answer

    done = _stopped(replace(wanted, api=heard))
    return replace(done, not_permitted=True) if refused and not done.ok else done


def _stopped(wanted: Stop) -> Outcome:
    ways: dict[Way, Callable[[Stop, Json], Outcome | None]] = {
        Way.SCALE: _scaled,
        Way.SUSPEND: _suspended,
        Way.NOTEBOOK: _notebook_stopped,
        Way.MIN_REPLICAS: _without_least,
        Way.EVICT: _evicted,
    }
    if wanted.kind.way is None:
        return Outcome(False, wanted.kind.why_not)
    for _ in range(_TRIES):
        read = read_now(wanted.api, wanted.top, wanted.kind)
        if isinstance(read, Outcome):
            return read
        refused = _why_not(wanted, part(read, "metadata"))
        if refused is not None:
            return Outcome(False, refused)
        done = ways[wanted.kind.way](wanted, read)
        if done is not None:
            return done
    return Outcome(False, _CHANGED)


def read_now(api: KubeApi, top: KubeObject, kind: Kind) -> Json | Outcome:
    """Return the object as it is now, if it is the same one."""
    question = Question("get", kind.resource, top.namespace, top.name)
    answer = api(question)
    if isinstance(answer, Unknown):
        return Outcome(False, answer.why)
    if answer.status == NOT_FOUND:
        return Outcome(True, "it is gone already")
    if not answer.ok:
        return Outcome(False, answer.why_not(question))
    if text(part(answer.body, "metadata"), "uid") != top.uid:
        return Outcome(False, f"another {top.kind} has its name now")
    return answer.body


def _why_not(wanted: Stop, about: Json) -> str | None:
    """Return why what was read now must not be stopped, or None."""
    protected = opt_out(texts(about, "annotations"), wanted.top.id, wanted.now_wall_s)
    if protected is not None:
        return str(protected)
    same = number(about, "generation") == wanted.top.generation
    return None if same else "somebody has changed it since it was judged"


def _scaled(wanted: Stop, read: Json) -> Outcome | None:
    replicas = number(part(read, "spec"), "replicas")
    if replicas == 0:
        return Outcome(True, "it was at zero already")
    if replicas is None:
        return Outcome(False, "its number of replicas cannot be read")
    marked = patch(wanted.api, wanted.kind.resource, read, annotations=wanted.marks(replicas))
    if isinstance(marked, str):
        return Outcome(False, marked)
    if marked.status == CONFLICT:
        return None
    done = _at_zero(wanted, marked.body, part(read, "spec"))
    if done is None:
        return Outcome(True, f"scaled from {replicas} to zero")
    _unmark(wanted, marked.body)
    return Outcome(False, done)


def _at_zero(wanted: Stop, marked: Json, spec: Json) -> str | None:
    """Scale what was marked to zero, if nobody else changes what it should be; return why not, or None.

    Its controller may write its status meanwhile, since a Deployment counts our marks as a change.
    """
    for _ in range(_TRIES):
        done = scale(wanted.api, wanted.kind.resource, marked, 0)
        if isinstance(done, str):
            return done
        if done.ok:
            return None
        now = read_now(wanted.api, wanted.top, wanted.kind)
        if isinstance(now, Outcome):
            return now.words
        protected = opt_out(texts(part(now, "metadata"), "annotations"), wanted.top.id, wanted.now_wall_s)
        if protected is not None:
            return str(protected)
        if part(now, "spec") != spec:
            return "somebody has changed it since it was judged"
        marked = now
    return _CHANGED


def _unmark(wanted: Stop, marked: Json) -> None:
    """Take the marks off again, as they say what did not happen."""
    about = {**part(marked, "metadata"), "resourceVersion": ""}
    patch(wanted.api, wanted.kind.resource, {"metadata": about}, annotations=NOT_STOPPED)


def _suspended(wanted: Stop, read: Json) -> Outcome | None:
    if QUEUE in texts(part(read, "metadata"), "labels"):
        return _deactivated(wanted, read)
    done = patch(wanted.api, wanted.kind.resource, read, annotations=wanted.marks(), spec={"suspend": True})
    if isinstance(done, str):
        return Outcome(False, done)
    if done.status == CONFLICT:
        return None
    if part(done.body, "spec").get("suspend") is not True:
        _unmark(wanted, done.body)
        return Outcome(False, f"this cluster cannot suspend a {wanted.kind.name} (Jobs since Kubernetes 1.21)")
    return Outcome(True, "suspended")


def _deactivated(wanted: Stop, read: Json) -> Outcome | None:
    """Deactivate the Workload with which Kueue runs the object: Kueue would undo its suspension."""
    workload = workload_of(wanted.api, wanted.top)
    if isinstance(workload, str):
        return Outcome(False, workload)
    marked = patch(wanted.api, wanted.kind.resource, read, annotations=wanted.marks())
    if isinstance(marked, str):
        return Outcome(False, marked)
    if marked.status == CONFLICT:
        return None
    done = patch(wanted.api, WORKLOADS, workload, spec={"active": False})
    if isinstance(done, KubeAnswer) and done.ok:
        return Outcome(True, "Kueue was told to deactivate its Workload")
    _unmark(wanted, marked.body)
    return Outcome(False, done) if isinstance(done, str) else None


def workload_of(api: KubeApi, top: KubeObject) -> Json | str:
    """Return the Workload that Kueue has made for an object, or why it was not found."""
    question = Question("list", WORKLOADS, top.namespace)
    answer = api(question)
    if isinstance(answer, Unknown):
        return answer.why
    if not answer.ok:
        return answer.why_not(question)
    for each in items(answer.body, "items"):
        if any(text(owner, "uid") == top.uid for owner in items(part(each, "metadata"), "ownerReferences")):
            return each
    return "Kueue has no Workload for it"


def _notebook_stopped(wanted: Stop, read: Json) -> Outcome | None:
    marks = {**wanted.marks(), NOTEBOOK_STOPPED: time_text(wanted.now_wall_s)}
    done = patch(wanted.api, wanted.kind.resource, read, annotations=marks)
    return outcome_of(done, "Kubeflow was told to stop the notebook")


def _without_least(wanted: Stop, read: Json) -> Outcome | None:
    least = number(part(read, "spec", "predictor"), "minReplicas")
    if least == 0:
        return Outcome(False, "its minReplicas is 0 already, so requests keep it up")
    marks = wanted.marks(1 if least is None else least)
    done = patch(wanted.api, wanted.kind.resource, read, annotations=marks, spec={"predictor": {"minReplicas": 0}})
    return outcome_of(done, "its minReplicas is 0 now, so it ends without requests")


def _evicted(wanted: Stop, _: Json) -> Outcome | None:
    done = evict(wanted.api, wanted.top)
    if isinstance(done, str):
        return Outcome(False, done)
    return Outcome(True, "its pod is evicted")
