"""Find what runs a pod: the object at the top, by the references to what controls what.

Whoever makes a pod writes its references. One counts only if it leads to an object of the same namespace that has
the name and the uid which it gives: a uid alone would lead into the namespaces of others.
"""

from collections.abc import Iterable, Mapping

from fallow.core.kube_api import KubeApi
from fallow.core.kubernetes import ABOVE_NOTHING, KINDS, Kind, KubeObject, OwnerReference
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.kubernetes.metadata import listed, object_of

_DEEPEST = 8
ByUid = Mapping[str, KubeObject]


@value
class Top:
    """What runs a pod, and why fallow cannot stop it, if it cannot."""

    itself: KubeObject
    no_way: str | None = None


class Owners:
    """The objects above the pods of one look. Each kind is listed once, when the first pod has one above it."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._known: dict[tuple[str, str], ByUid | Unknown] = {}

    def tops(self, pods: Iterable[KubeObject]) -> dict[str, Top]:
        """Return what runs each pod, by the pod's uid."""
        return {pod.uid: self._top(pod) for pod in pods}

    def _top(self, below: KubeObject) -> Top:
        for _ in range(_DEEPEST):
            reference = below.owner
            if reference is None or (below.group, below.kind) in ABOVE_NOTHING:
                return Top(below, _no_way(below))
            kind = KINDS.get((reference.group, reference.kind))
            if kind is None:
                return Top(_named(reference, below), f"fallow does not know how to stop a {reference.kind}")
            among = self._of_kind(kind)
            if isinstance(among, Unknown):
                return Top(_named(reference, below), among.why)
            above = among.get(reference.uid)
            if above is None or (above.namespace, above.name) != (below.namespace, reference.name):
                return Top(_named(reference, below), f"its {reference.kind} is gone, or is not the same any more")
            below = above
        return Top(below, f"more than {_DEEPEST} objects are above its pods")

    def _of_kind(self, kind: Kind) -> ByUid | Unknown:
        key = (kind.resource.group, kind.name)
        if key not in self._known:
            group, name = key
            found = listed(self._api, kind.resource, lambda body: object_of(body, name, group), only_metadata=True)
            self._known[key] = found if isinstance(found, Unknown) else {each.uid: each for each in found}
        return self._known[key]


def _no_way(top: KubeObject) -> str | None:
    kind = top.known
    if kind is None or kind.way is not None:
        return None
    return kind.why_not


def _named(reference: OwnerReference, below: KubeObject) -> KubeObject:
    """Return what a reference says of an object that was not read: the API server takes any text there."""
    kind, name = printable(reference.kind), printable(reference.name)
    return KubeObject(kind, reference.group, below.namespace, name, reference.uid)
