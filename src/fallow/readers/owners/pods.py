"""Read what the kubelet calls the pods of this node, by the links that it makes to the logs of their containers.

    /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log -> /var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log

The kernel says the pod's UID and the container's id, in the cgroup of a process; the link must have both. A folder
that others than root can write to is not believed, and neither is a link that is not root's.
"""

import os
import re

from fallow.core.owner import PodNames
from fallow.core.unknown import Unknown
from fallow.readers.file_trust import doubts

FOLDER = "/var/log/containers"
_MOST_LINKS = 20_000
_NAME, _LONG_NAME = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_TARGET = re.compile(
    rf".*/(?P<namespace>{_NAME})_(?P<pod>{_LONG_NAME})_(?P<uid>[0-9a-f-]{{32,36}})/(?P<container>{_NAME})/\d+\.log",
    re.ASCII,
)


def pod_names(uid: str, container: str, folder: str = FOLDER) -> PodNames | Unknown:
    """Return what the kubelet calls the container with this id of the pod with this UID."""
    ending, found = f"-{container}.log", set()
    try:
        wrong = doubts(folder)
        if wrong:
            return Unknown(wrong[0].sentence)
        with os.scandir(folder) as links:
            for _, link in zip(range(_MOST_LINKS), links, strict=False):
                if link.name.endswith(ending) and link.stat(follow_symlinks=False).st_uid == 0:
                    found.add(_names(os.readlink(link.path), uid))
    except OSError as error:
        return Unknown(f"{folder} cannot be read: {error.strerror}")
    names = found.pop() if len(found) == 1 else None
    return Unknown(f"{folder} does not name its container") if names is None else names


def _names(target: str, uid: str) -> PodNames | None:
    match = _TARGET.fullmatch(target)
    if match is None or match["uid"] != uid:
        return None
    return PodNames(match["namespace"], match["pod"], match["container"])
