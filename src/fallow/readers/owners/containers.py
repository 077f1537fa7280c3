"""Ask Docker or Podman about a container: its name, its image, its labels, and whether it is started again.

A container is believed to be a process's only if the engine names a process of it that is in the very same cgroup:
any user who may make cgroups can give one the name of somebody else's container.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

from fallow.core.errors import NotPermitted
from fallow.core.http import Endpoint, Http
from fallow.core.owner import OwnerFacts
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.http import RightsOf, only_ours
from fallow.readers.owners.traces import container_cgroup
from fallow.readers.proc import Proc

API = "/v1.40"
_ENGINES = ("/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock")
_OF_USER = ("docker.sock", "podman/podman.sock")
_LONGEST_NAME = 200
_COMPOSE_SERVICES = ("com.docker.compose.service", "io.podman.compose.service")
_KEPT_LABELS = ("fallow.protect", "fallow.idle-for", *_COMPOSE_SERVICES)


@value
class Container:
    """A container, and the engine that runs it."""

    endpoint: Endpoint
    facts: OwnerFacts


def endpoints(
    users: frozenset[int], named: str = "", rights_of: RightsOf = only_ours, folder: str = "/run/user"
) -> Iterator[Endpoint]:
    """Return the sockets of engines that exist: the machine's and these users', or the one that was named.

    `rights_of`: a folder of a user may be a link to anywhere, so what is there is looked at with their rights.
    """
    paths = [named.removeprefix("unix://")] if named else [*_ENGINES]
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        if os.path.exists(path):
            yield Endpoint(path, users=frozenset((0, os.geteuid())))
    for uid in () if named else sorted(users):
        paths, there = [f"{folder}/{uid}/{each}" for each in _OF_USER], list[str]()
        with suppress(NotPermitted), rights_of(uid):
            there = list(filter(os.path.lexists, paths))
        for path in there:
            yield Endpoint(path, users=frozenset((uid,)), named_by=uid)


def ask_about(
    http: Http, proc: Proc, pid: int, container: str, engines: Iterator[Endpoint], limit_s: float
) -> Container | Unknown:
    """Return what the first engine that knows the container says."""
    why = Unknown("no container engine's socket is here")
    for endpoint in engines:
        answer = http(endpoint, "GET", f"{API}/containers/{container}/json", {}, limit_s)
        if isinstance(answer, Unknown):
            why = answer
        elif answer.status == 404:
            why = Unknown(f"the engine at {endpoint.path} does not know the container")
        elif answer.status != 200:
            why = Unknown(f"the engine at {endpoint.path} answered {answer.status}")
        else:
            facts = _facts(answer.body, proc, pid, container)
            return facts if isinstance(facts, Unknown) else Container(endpoint, facts)
    return why


def _facts(body: bytes, proc: Proc, pid: int, container: str) -> OwnerFacts | Unknown:
    try:
        said = json.loads(body)
        config, first = said["Config"], int(said["State"]["Pid"])
        if said["Id"] != container:
            return Unknown("the engine answered about another container")
        said_labels = config.get("Labels") or {}
        labels = {name: _shortened(said_labels[name]) for name in _KEPT_LABELS if name in said_labels}
        name, image = _shortened(said["Name"]).lstrip("/"), _shortened(config.get("Image") or "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return Unknown("the answer of the container engine makes no sense")
    path = container_cgroup(proc, pid, container)
    if path is None or path != container_cgroup(proc, first, container):
        return Unknown("the engine's container is in another cgroup than the process")
    service = next((labels[each] for each in _COMPOSE_SERVICES if each in labels), "")
    pids = frozenset(each for each in proc.pids() if container_cgroup(proc, each, container) == path)
    return OwnerFacts(name, image=image, service=service, labels=labels, pids=pids)


def _shortened(text: object) -> str:
    return printable(str(text))[:_LONGEST_NAME]
