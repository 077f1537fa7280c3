"""Explain a part of the cluster: what it does now, which rule counts for it, and what was done to it."""

from collections.abc import Sequence

from fallow.core.cluster_names import cluster_target
from fallow.core.cluster_view import ClusterView
from fallow.core.errors import FallowError, NothingFound
from fallow.core.findings import Event
from fallow.core.protections import ClusterPart, OneClusterJob, OneUser, Protection
from fallow.core.value import value
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster import cluster_of, demand_node
from fallow.engine.answers.why import events_of
from fallow.engine.jobs.protections import active_protections


@value
class ClusterExplained:
    """What is so now about a part of the cluster, and what the journals have on it."""

    target: OneClusterJob | ClusterPart
    view: ClusterView | None
    """None if the daemon could not be asked."""
    protections: Sequence[Protection]
    events: Sequence[Event]
    trouble: FallowError | None
    """Why the daemon could not be asked, or a journal not be read."""

    @property
    def is_node(self) -> bool:
        """Return whether it is a node that is there."""
        return self.view is not None and _is_node(self.target, self.view)


def explain_cluster(asker: Asker, subject: str) -> ClusterExplained:
    """Explain a part of the cluster by what the daemon says of it now, and by the journals."""
    target = cluster_target(subject)
    view, trouble = None, None
    try:
        view = cluster_of(asker, subject)
    except FallowError as error:
        trouble = error
    events, unreadable = events_of(asker.world, None if view is None else asker.daemon, _key(target, view))
    if trouble is not None and not events:
        raise trouble
    if not events and view is not None:
        demand_node(view, target)
    if not events and view is not None and not view.jobs and not view.troubles and not _is_node(target, view):
        raise NothingFound(
            f"{subject} holds no GPU now, and the journal has nothing on it",
            f"{_of_an_array(target)}fallow status --cluster lists the jobs that do",
        )
    for problem in (trouble, unreadable):
        if problem is not None:
            asker.note(str(problem))
    return ClusterExplained(target, view, _protections(asker, target, view), events, trouble or unreadable)


def _of_an_array(target: OneClusterJob | ClusterPart) -> str:
    """Return how to ask where the number may be that of an array whose tasks have ended."""
    is_number = isinstance(target, OneClusterJob) and target.key.removeprefix("slurm:").isdecimal()
    return f"of an array ask about one task, as {target}_1; " if is_number else ""


def _key(target: OneClusterJob | ClusterPart, view: ClusterView | None) -> str:
    """Return the journal's key: of a pod that of the job that it belongs to, where that is known."""
    if isinstance(target, ClusterPart) and target.kind == "pod" and view is not None and len(view.jobs) == 1:
        return view.jobs[0].key
    return (
        f"kubernetes:Pod/{target.name}" if isinstance(target, ClusterPart) and target.kind == "pod" else str(target)
    )


def _is_node(target: OneClusterJob | ClusterPart, view: ClusterView) -> bool:
    return isinstance(target, ClusterPart) and target.kind == "node" and bool(view.nodes)


def _protections(asker: Asker, target: OneClusterJob | ClusterPart, view: ClusterView | None) -> list[Protection]:
    """Return those that name it, or the user of the job."""
    users = {job.user for job in view.jobs} if view is not None and isinstance(target, OneClusterJob) else set()
    named = {str(target), *(str(OneUser(user)) for user in users if user)}
    try:
        found = active_protections(asker.world, None if view is None else asker.daemon)
    except FallowError:
        return []
    return [each for each in found if str(each.target) in named]
