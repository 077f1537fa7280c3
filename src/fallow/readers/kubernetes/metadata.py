"""Read the metadata of an object, and lists of objects, in pages."""

from collections.abc import Callable
from typing import TypeVar

from fallow.core.kube_api import (
    NOT_FOUND,
    Json,
    KubeApi,
    Question,
    Resource,
    TooLong,
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

    Of objects that are too long together fewer are asked for at once: people of one namespace can make theirs long,
    and all others are read all the same. `may_be_absent`: a cluster that does not have this kind at all has no object
    of it.
    """
    found: list[T] = []
    onward, at_once = "", _PAGE
    for _ in range(_MOST_PAGES):
        params = (("limit", str(at_once)), ("fieldSelector", select), ("continue", onward))
        question = Question(
            "list",
            resource,
            namespace,
            params=tuple(pair for pair in params if pair[1]),
            only_metadata=only_metadata,
        )
        answer = api(question)
        if isinstance(answer, TooLong) and at_once > 1:
            at_once = max(1, at_once // 10)
            continue
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
        at_once = min(_PAGE, 2 * at_once)
    return Unknown(f"there are more than {_PAGE * _MOST_PAGES} {resource.plural}, or many that are too long")


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
