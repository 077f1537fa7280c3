"""`fallow why slurm:1234`: what a job of the cluster does now, which rule counts for it, and what was done to it."""

import argparse
from collections.abc import Sequence

from fallow.core.api import VERSION
from fallow.core.cluster_names import cluster_target
from fallow.core.cluster_view import ClusterView
from fallow.core.errors import FallowError, NothingFound
from fallow.core.findings import Event
from fallow.core.protections import ClusterPart, OneClusterJob, OneUser, Protection, with_its_end
from fallow.engine.jobs.protections import active_protections
from fallow.engine.machine.daemon_client import DaemonClient
from fallow.engine.machine.world import World
from fallow.interfaces.cli.cluster_status import cluster_of, demand_node, tell_if_old
from fallow.interfaces.cli.why import events_of
from fallow.interfaces.render import cluster_json, cluster_text, why_text
from fallow.interfaces.render.as_json import as_text, protection_facts
from fallow.interfaces.stderr import Stderr

_MOST_JOBS = 20


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Print what the daemon says of the job now, then what the journals have."""
    target = cluster_target(args.subject)
    view, trouble = None, None
    try:
        view = cluster_of(world, voice, args.subject, alone=args.alone)
    except FallowError as error:
        trouble = error
    daemon = None if args.alone or view is None else world.daemon(voice.detail)
    events, unreadable = events_of(world, daemon, _key(target, view))
    if trouble is not None and not events:
        raise trouble
    if not events and view is not None:
        demand_node(view, target)
    if not events and view is not None and not view.jobs and not view.troubles and not _is_node(target, view):
        raise NothingFound(
            f"{args.subject} holds no GPU now, and the journal has nothing on it",
            f"{_of_an_array(target)}fallow status --cluster lists the jobs that do",
        )
    for problem in (trouble, unreadable):
        if problem is not None:
            voice.note(str(problem))
    protections = _protections(target, view, world, daemon)
    if args.json:
        print(as_text(_facts(target, view, protections, events, trouble or unreadable)))
        return 0
    now_s = world.clock.wall_s()
    if view is not None:
        tell_if_old(view, now_s, voice)
        for line in _now(target, view):
            print(line)
    for each in protections:
        print(f"  {with_its_end(each, now_s, {})}")
    for line in why_text.story(events, now_s):
        print(line)
    if not events:
        print(_no_entries(target, view))
    return 0


def _of_an_array(target: OneClusterJob | ClusterPart) -> str:
    """Return how to ask where the number may be that of an array whose tasks have ended."""
    is_number = isinstance(target, OneClusterJob) and target.key.removeprefix("slurm:").isdecimal()
    return f"of an array ask about one task, as {target}_1; " if is_number else ""


def _no_entries(target: OneClusterJob | ClusterPart, view: ClusterView | None) -> str:
    """Return what to print where the journal has nothing: what it has on an array is under the names of its tasks."""
    tasks = [] if view is None else [job.subject for job in view.jobs if job.key.startswith(f"{target}_")]
    if tasks:
        return f"the journal has entries on each task alone; see: fallow why {tasks[0]}"
    return "the journal has no entries on that"


def _key(target: OneClusterJob | ClusterPart, view: ClusterView | None) -> str:
    """Return the journal's key: of a pod that of the job that it belongs to, where that is known."""
    if isinstance(target, ClusterPart) and target.kind == "pod" and view is not None and len(view.jobs) == 1:
        return view.jobs[0].key
    return (
        f"kubernetes:Pod/{target.name}" if isinstance(target, ClusterPart) and target.kind == "pod" else str(target)
    )


def _is_node(target: OneClusterJob | ClusterPart, view: ClusterView) -> bool:
    return isinstance(target, ClusterPart) and target.kind == "node" and bool(view.nodes)


def _protections(
    target: OneClusterJob | ClusterPart, view: ClusterView | None, world: World, daemon: DaemonClient | None
) -> list[Protection]:
    """Return those that name it, or the user of the job."""
    users = {job.user for job in view.jobs} if view is not None and isinstance(target, OneClusterJob) else set()
    named = {str(target), *(str(OneUser(user)) for user in users if user)}
    try:
        found = active_protections(world, daemon)
    except FallowError:
        return []
    return [each for each in found if str(each.target) in named]


def _now(target: OneClusterJob | ClusterPart, view: ClusterView) -> list[str]:
    lines = [f"not read: {each}; nothing is stopped meanwhile" for each in view.troubles]
    if _is_node(target, view):
        lines += [cluster_text.node_line(node) for node in view.nodes]
    if not view.jobs:
        lines.append(cluster_text.nothing_held(view, str(target)))
    for job in view.jobs[:_MOST_JOBS]:
        lines += cluster_text.job_lines(job)
    more = view.more_jobs + len(view.jobs) - _MOST_JOBS
    return [*lines, f"and {more} more jobs"] if more > 0 else lines


def _jobs(view: ClusterView | None) -> list[dict[str, object]] | None:
    """Return the jobs; None if they could not be listed, and none is known of an earlier look."""
    if view is None:
        return []
    return [cluster_json.job(job) for job in view.jobs] if view.jobs or view.jobs_listed else None


def _facts(
    target: OneClusterJob | ClusterPart,
    view: ClusterView | None,
    protections: Sequence[Protection],
    events: Sequence[Event],
    trouble: FallowError | None,
) -> dict[str, object]:
    unknown = {} if trouble is None else {"events": str(trouble)}
    if view is not None and not view.jobs_listed:
        unknown["jobs"] = "; ".join(view.troubles)
    return {
        "version": VERSION,
        "subject": str(target),
        "watched": view is not None,
        "jobs": _jobs(view),
        "nodes": [cluster_json.node(node) for node in view.nodes] if view and _is_node(target, view) else [],
        "protections": [protection_facts(each) for each in protections],
        "events": [why_text.event_facts(event) for event in events],
        "unknown": unknown,
    }
