"""Read the metadata of an object, and lists of objects, in pages."""

from collections.abc import Callable
from typing import TypeVar

from fallow.core.kube_api import (
    NOT_FOUND,
    Json,
    KubeApi,
    Question,
    Resource,
    items,
    number,
    part,
    text,
    texts,
)
from fallow.core.kubernetes import KubeObject, OwnerReference
from fallow.core.unknown import Unknown

_PAGE = 500
_MOST_PAGES = 400
LONGEST_NAME = 253
T = TypeVar("T")


def listed(
    api: KubeApi,
    resource: Resource,
    read: Callable[[Json], T | None],
    *,
    namespace: str = "",
    select: str = "",
    only_metadata: bool = False,
    may_be_absent: bool = False,
) -> list[T] | Unknown:
    """Return what `read` makes of each object; Unknown unless all pages were read.

    `may_be_absent`: a cluster that does not have this kind at all has no object of it.
    """
    found: list[T] = []
    onward = ""
    for _ in range(_MOST_PAGES):
        params = (("limit", str(_PAGE)), ("fieldSelector", select), ("continue", onward))
        question = Question(
            "list",
            resource,
            namespace,
            params=tuple(pair for pair in params if pair[1]),
            only_metadata=only_metadata,
        )
        answer = api(question)
        if isinstance(answer, Unknown):
            return answer
        if answer.status == NOT_FOUND and may_be_absent:
            return []
        if not answer.ok:
            return Unknown(f"{resource.plural} cannot be listed: {answer.why_not(question)}")
        for each in items(answer.body, "items"):
            made = read(each)
            if made is not None:
                found.append(made)
        onward = text(part(answer.body, "metadata"), "continue", 4096)
        if not onward:
            return found
    return Unknown(f"there are more than {_PAGE * _MOST_PAGES} {resource.plural}")


def object_of(body: Json, kind: str, group: str) -> KubeObject | None:
    """Return the metadata of an object; None if it has no name or no identity."""
    about = part(body, "metadata")
    name, uid = text(about, "name", LONGEST_NAME), text(about, "uid", LONGEST_NAME)
    if not name or not uid:
        return None
    return KubeObject(
        kind,
        group,
        text(about, "namespace", LONGEST_NAME),
        name,
        uid,
        number(about, "generation"),
        texts(about, "annotations"),
        texts(about, "labels"),
        controller_of(about),
    )


def controller_of(metadata: Json) -> OwnerReference | None:
    """Return the reference to what controls the object, or None."""
    for each in items(metadata, "ownerReferences"):
        if each.get("controller") is True:
            group = text(each, "apiVersion", LONGEST_NAME).rpartition("/")[0]
            name, uid = text(each, "name", LONGEST_NAME), text(each, "uid", LONGEST_NAME)
            return OwnerReference(text(each, "kind", LONGEST_NAME), group, name, uid)
    return None
