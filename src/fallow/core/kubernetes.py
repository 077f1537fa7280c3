"""What runs pods in Kubernetes: which kinds there are, how each is stopped, and what people wrote on it.

    fallow.protect=yes                            no rule stops it
    fallow.protect-until=2026-11-20T18:00:00Z     no rule stops it until then
    fallow.idle-for=8h                            it may be idle for so long

These are annotations of a pod, of what runs it, or of its namespace. One that cannot be read protects: its author
wanted something, and nobody knows what.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum

from fallow.core.errors import WrongUsage
from fallow.core.kube_api import Resource
from fallow.core.reasons import Reason
from fallow.core.units import printable, span_s
from fallow.core.unknown import Unknown
from fallow.core.value import value

PROTECT, PROTECT_UNTIL, IDLE_FOR = "fallow.protect", "fallow.protect-until", "fallow.idle-for"
IDLE_SINCE, STOPS_AT = "fallow.idle-since", "fallow.stops-at"
"""The warning, where the people of an object look at it."""
STOPPED_AT, STOPPED_FROM, STOPPED_WHY = "fallow.stopped-at", "fallow.stopped-from", "fallow.stopped-because"
"""What fallow stopped, and from how many replicas: `fallow wake` reads it."""
NOTEBOOK_STOPPED = "kubeflow-resource-stopped"
"""The annotation with which Kubeflow stops a notebook."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of what Kueue admits."""
MOST_REPLICAS = 10_000
_YES, _NO = frozenset(("", "1", "yes", "true", "on")), frozenset(("0", "no", "false", "off"))
_LONGEST_TEXT = 40

PODS, NODES, NAMESPACES, EVENTS = (Resource("v1", name) for name in ("pods", "nodes", "namespaces", "events"))
WORKLOADS = Resource("kueue.x-k8s.io/v1beta1", "workloads")


class Way(StrEnum):
    """How the pods of an object are stopped, so that they do not come back."""

    SCALE = "scale it to zero"
    SUSPEND = "suspend it"
    NOTEBOOK = "stop it as Kubeflow does"
    MIN_REPLICAS = "let it scale to zero (minReplicas 0)"
    EVICT = "evict its pod"


@value
class Kind:
    """A kind of object that runs pods, or that something above it uses to run them."""

    name: str
    resource: Resource
    way: Way | None = None
    """None if it cannot be stopped by itself."""
    interactive: bool = False
    why_not: str = ""
    """Why it cannot be stopped."""


_SERVING = "serving.knative.dev/v1"
_ABOVE = "it only stands between a pod and what runs it"
_KINDS = (
    Kind("Pod", PODS, Way.EVICT),
    Kind("Deployment", Resource("apps/v1", "deployments"), Way.SCALE),
    Kind("StatefulSet", Resource("apps/v1", "statefulsets"), Way.SCALE),
    Kind("ReplicaSet", Resource("apps/v1", "replicasets"), Way.SCALE),
    Kind("DaemonSet", Resource("apps/v1", "daemonsets"), why_not="a DaemonSet runs on each node, and has no scale"),
    Kind("Job", Resource("batch/v1", "jobs"), Way.SUSPEND),
    Kind("RayCluster", Resource("ray.io/v1", "rayclusters"), Way.SUSPEND),
    Kind("RayJob", Resource("ray.io/v1", "rayjobs"), Way.SUSPEND),
    Kind("Notebook", Resource("kubeflow.org/v1", "notebooks"), Way.NOTEBOOK, interactive=True),
    Kind("InferenceService", Resource("serving.kserve.io/v1beta1", "inferenceservices"), Way.MIN_REPLICAS),
    Kind("Revision", Resource(_SERVING, "revisions"), why_not=_ABOVE),
    Kind("Configuration", Resource(_SERVING, "configurations"), why_not=_ABOVE),
    Kind("Service", Resource(_SERVING, "services"), why_not="Knative scales it by its traffic"),
)
KINDS: Mapping[tuple[str, str], Kind] = {(kind.resource.group, kind.name): kind for kind in _KINDS}
"""The kinds that fallow knows, by API group and name. Versions of a group change; the objects stay the same."""
ABOVE_NOTHING = frozenset((("batch", "Job"),))
"""What is stopped itself, although something is above it: a CronJob goes on with its next run."""


@value
class KubeObject:
    """The metadata of an object that runs pods."""

    kind: str
    group: str
    namespace: str
    name: str
    uid: str
    generation: int | None = None
    """Changes when somebody changes what the object should be."""
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    owner: "OwnerReference | None" = None

    @property
    def id(self) -> str:
        """Return what a ClusterJob is called: `Deployment/NAMESPACE/NAME`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def known(self) -> Kind | None:
        """Return what fallow knows of its kind."""
        return KINDS.get((self.group, self.kind))


@value
class OwnerReference:
    """What an object says of the one that controls it."""

    kind: str
    group: str
    name: str
    uid: str


def opt_out(annotations: Mapping[str, str], of: str, now_wall_s: float) -> Reason | None:
    """Return why the annotations of an object protect it now, or None."""
    said = annotations.get(PROTECT)
    if said is not None and said.strip().lower() not in _NO:
        if said.strip().lower() in _YES:
            return Reason("protected_annotation", annotation=PROTECT, text=_short(said), owner=of)
        return _unclear(PROTECT, said, of, f"{PROTECT}=yes or {PROTECT}=no")
    until = annotations.get(PROTECT_UNTIL)
    ends_s = None if until is None else time_s(until)
    if until is not None and isinstance(ends_s, Unknown):
        return _unclear(PROTECT_UNTIL, until, of, f"{PROTECT_UNTIL}=2030-01-31T18:00:00Z")
    if until is not None and isinstance(ends_s, float) and now_wall_s < ends_s:
        return Reason("protected_annotation", annotation=PROTECT_UNTIL, text=_short(until), owner=of)
    if isinstance(_idle_for_s(annotations), Unknown):
        return _unclear(IDLE_FOR, annotations[IDLE_FOR], of, f"{IDLE_FOR}=8h")
    return None


def longest_idle_s(said: Iterable[Mapping[str, str]]) -> float | None:
    """Return the longest time that any of these annotations lets its pods be idle; None if none says one."""
    times = [time for each in said if isinstance(time := _idle_for_s(each), float)]
    return max(times, default=None)


def _idle_for_s(annotations: Mapping[str, str]) -> float | Unknown | None:
    text = annotations.get(IDLE_FOR)
    if text is None:
        return None
    try:
        return span_s(text) or Unknown("it is 0")
    except WrongUsage as error:
        return Unknown(str(error))


def time_s(text: str) -> float | Unknown:
    """Return the seconds since the epoch of `2026-11-20T18:00:00Z`, or of a day; in UTC, if it has no zone."""
    try:
        found = datetime.fromisoformat(text.strip()[:_LONGEST_TEXT])
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return Unknown(f"{_short(text)!r} is not a time")


def time_text(wall_s: float) -> str:
    """Return a time as Kubernetes writes it."""
    return datetime.fromtimestamp(int(wall_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def replicas_before(annotations: Mapping[str, str]) -> int | None:
    """Return how many replicas fallow stopped; None if that cannot be read. Anybody may have written it."""
    said = annotations.get(STOPPED_FROM, "")
    known = said.isascii() and said.isdigit() and len(said) <= len(str(MOST_REPLICAS))
    return int(said) if known and 0 < int(said) <= MOST_REPLICAS else None


def _unclear(annotation: str, said: str, of: str, example: str) -> Reason:
    return Reason("annotation_unclear", annotation=annotation, text=_short(said), owner=of, example=example)


def _short(text: str) -> str:
    return printable(text[:_LONGEST_TEXT])
