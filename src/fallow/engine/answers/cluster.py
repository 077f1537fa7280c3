"""Ask the daemon about the cluster that it watches."""

from fallow.core.cluster_view import ClusterView
from fallow.core.errors import NoDaemon, NothingFound
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.units import duration_for_people
from fallow.engine.answers.asker import Asker

OLD_S = 300.0
"""After how long without a look an answer is called old."""
_ALL = 20_000


def cluster_of(asker: Asker, subject: str | None) -> ClusterView:
    """Return the cluster as the daemon saw it; raise NoDaemon where there is none that watches one."""
    daemon = asker.daemon
    view = daemon.cluster(subject, _ALL)
    if view is None and daemon.trouble is not None:
        raise NoDaemon(f"the cluster is not known: {daemon.trouble}", "see: fallow check, docs/guides/cluster.md")
    if view is None:
        raise NoDaemon(
            "no `fallow up` runs on this machine, and only it looks at the cluster",
            "start it with a config that has [cluster]",
        )
    return view


def note_if_old(asker: Asker, view: ClusterView) -> bool:
    """Return whether the last look was long ago, and say so."""
    old_s = asker.world.clock.wall_s() - view.at_wall_s
    if old_s <= OLD_S:
        return False
    asker.note(f"the cluster was last looked at {duration_for_people(round(old_s))} ago: what follows is old")
    return True


def demand_node(view: ClusterView, target: OneClusterJob | ClusterPart | None) -> None:
    """Raise NothingFound for a node that is known not to be there: all could be read, and it is not among them."""
    if isinstance(target, ClusterPart) and target.kind == "node" and not view.nodes and not view.troubles:
        raise NothingFound(f"there is no node {target.name} with GPUs", "fallow status --cluster lists them")
