"""`fallow wake`: find what fallow stopped in a Kubernetes cluster, and let it run again."""

import re
from collections.abc import Callable

from fallow.actuators.kubernetes.wake import how, wake
from fallow.core.errors import WrongUsage
from fallow.core.findings import Outcome
from fallow.core.kube_api import Json, KubeAnswer, KubeApi, Question
from fallow.core.kubernetes import KINDS, STOPPED_AT, STOPPED_WHY, Kind, KubeObject, Way
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.kubernetes.metadata import listed, object_of

_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_LONGEST_TEXT = 300
_WAKEABLE = {kind.name.lower(): kind for kind in KINDS.values() if kind.way is not None and kind.way is not Way.EVICT}


@value
class Stopped:
    """Something that fallow stopped, as its annotations say."""

    subject: str
    kind: str
    namespace: str
    name: str
    at: str
    because: str
    does: str | None
    """What waking it does, after "would"; None if its annotations cannot be read."""


@value
class Named:
    """What a person named: `deployment:NS/NAME`."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}:{self.namespace}/{self.name}"


def parse_named(text: str) -> Named:
    """Return what `deployment:NS/NAME` names, or the `Deployment/NS/NAME` of the journal."""
    match = re.fullmatch(rf"([A-Za-z]{{1,40}})[:/]({_NAME})/({_NAME})", text.strip()[:600], re.ASCII)
    kind = _WAKEABLE.get(match[1].lower()) if match else None
    if match is None or kind is None:
        kinds = ", ".join(_WAKEABLE)
        raise WrongUsage(
            f"{printable(text[:80])!r} names nothing of a cluster that can be woken",
            f"write it as deployment:NAMESPACE/NAME; the kinds are {kinds}",
        )
    return Named(kind, match[2], match[4])


def woken(api: KubeApi, named: Named) -> Outcome | Unknown:
    """Let what was named run again; Unknown if the cluster did not answer."""
    silent: list[Unknown] = []

    def heard(question: Question) -> KubeAnswer | Unknown:
        answer = api(question)
        if isinstance(answer, Unknown):
            silent.append(answer)
        return answer

    done = wake(heard, named.kind, named.namespace, named.name)
    return silent[-1] if silent and not done.ok else done


def all_stopped(api: KubeApi) -> tuple[list[Stopped], list[str]]:
    """Return what fallow stopped in all namespaces, and what could not be listed."""
    found: list[Stopped] = []
    troubles: list[str] = []
    for kind in _WAKEABLE.values():
        of_kind = listed(api, kind.resource, _reader_of(kind), only_metadata=True, may_be_absent=True)
        if isinstance(of_kind, Unknown):
            troubles.append(of_kind.why)
        else:
            found += [_stopped(kind, each) for each in of_kind]
    return found, list(dict.fromkeys(troubles))


def _reader_of(kind: Kind) -> Callable[[Json], KubeObject | None]:
    """Return a function that reads the objects which fallow stopped, and passes over all others.

    A Deployment's annotations are copied to its ReplicaSets, which something else controls.
    """

    def read(body: Json) -> KubeObject | None:
        found = object_of(body, kind.name, kind.resource.group)
        stopped = found is not None and found.owner is None and STOPPED_AT in found.annotations
        return found if stopped else None

    return read


def _stopped(kind: Kind, found: KubeObject) -> Stopped:
    said = found.annotations
    return Stopped(
        f"{kind.name.lower()}:{found.namespace}/{found.name}",
        kind.name,
        found.namespace,
        found.name,
        printable(said[STOPPED_AT][:_LONGEST_TEXT]),
        printable(said.get(STOPPED_WHY, "")[:_LONGEST_TEXT]),
        how(kind, dict(said)),
    )
