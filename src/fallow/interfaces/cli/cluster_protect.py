"""`fallow protect slurm:1234`: check that a protection of a part of a cluster means something, and say what."""

from typing import TYPE_CHECKING

from fallow.core.errors import NotPermitted
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.engine.machine.world import World
from fallow.interfaces.cli.cluster_status import demand_node
from fallow.interfaces.stderr import Stderr

if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient


def check(target: OneClusterJob | ClusterPart, world: World, voice: Stderr, daemon: "DaemonClient | None") -> None:
    """Raise NotPermitted for a job of another user; note what a person should know before they rely on it."""
    view = None if daemon is None else daemon.cluster(str(target))
    if view is None:
        why = "no `fallow up` with [cluster] answers here"
        voice.note(f"{why}: the protection counts once one reads the protections of this machine")
        return
    demand_node(view, target)
    may_all = world.viewer.everything or (daemon is not None and (daemon.hello() or {}).get("user") == world.user)
    others = [] if may_all else sorted({job.user for job in view.jobs if job.user not in ("", world.user)})
    if not view.jobs and not view.jobs_listed:
        voice.note(f"whether {target} holds a GPU now is not known; the protection counts all the same")
    elif not view.jobs:
        voice.note(f"{target} holds no GPU now; the protection counts once it does")
    elif others and isinstance(target, OneClusterJob):
        raise NotPermitted(f"{target} is {others[0]}'s; only {others[0]} and root can protect it")
    elif others:
        voice.note(f"of {target} this protects your own jobs; those of others only they and root can protect")
