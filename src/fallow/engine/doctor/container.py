"""Check what a container keeps from fallow: the pids of the machine, and what must be shared with it."""

import os
from collections.abc import Iterator
from shlex import quote

from fallow.actuators.claims.folder import folder_path
from fallow.core.gpu import Holder
from fallow.core.owner import Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.engine.client.socket_path import own_socket
from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.world import World

_KINDS = (OwnerKind.POD, OwnerKind.CONTAINER, OwnerKind.SLURM)
_MARKS = ("/run/.containerenv", "/.dockerenv")
_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
GIVE_DRIVER = "start the container with --device nvidia.com/gpu=all, or --gpus all with Docker"


def has_own_files(world: World) -> bool:
    """Return whether fallow runs on the files of an image: podman, Docker and Kubernetes leave a mark for that."""
    return any(map(os.path.exists, _MARKS)) or any(world.environ.get(name) for name in _VARIABLES)


def examine(world: World) -> Iterator[CheckFinding]:
    """Check whether pids mean the same to fallow and to the driver, and what a container shares with the machine."""
    owner = world.proc.describe(Holder(os.getpid(), 0)).owner
    known = isinstance(owner, Owner) and owner.kind in _KINDS
    own_files = has_own_files(world)
    nowhere = "in a container" if own_files else "in no container"
    where = f"in {owner.label}" if isinstance(owner, Owner) and known else nowhere
    if world.proc.in_pid_namespace_of_its_own():
        means = f"{where}, with a pid namespace of its own: processes outside cannot be named or signalled"
        yield lacking("container", means, "run fallow on the host, or start the container with --pid=host")
    else:
        yield ok("container", f"{where}; pids are those of the machine")
    if own_files:
        yield from _shared(world)


def _shared(world: World) -> Iterator[CheckFinding]:
    """Check which folders of the machine the container has."""
    mounts = world.proc.mount_points()
    if isinstance(mounts, Unknown):
        yield lacking("shared folders", f"not known: {mounts.why}")
        return
    claims, socket = folder_path(world.environ), own_socket(world.environ)
    state = os.path.dirname(world.state_folder) if world.simulated else world.state_folder
    wanted = (
        (
            "shared claims",
            os.path.dirname(claims),
            "claims outside are not seen, and claims made here bind nobody there",
        ),
        ("shared socket", os.path.dirname(socket or ""), "no fallow outside can ask this daemon"),
        ("shared state", state, "journal and history are lost with the container"),
    )
    for part, path, without in wanted:
        if not path:
            continue
        if _is_below(path, mounts):
            yield ok(part, f"{quote(path)} is mounted from outside")
        else:
            means = f"{quote(path)} is the container's own: {without}"
            yield lacking(part, means, f"start the container with -v {quote(f'{path}:{path}')}")


def _is_below(path: str, mounts: tuple[str, ...]) -> bool:
    return any(path == mount or path.startswith(f"{mount}/") for mount in mounts if mount != "/")
