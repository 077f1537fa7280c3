"""Explain a part of a cluster, for people and for programs: now, then what was found and done before."""

from collections.abc import Iterator
from typing import Any

from fallow.core.api import VERSION
from fallow.core.cluster_view import ClusterView
from fallow.core.protections import ClusterPart, OneClusterJob, with_its_end
from fallow.engine.answers.cluster_why import ClusterExplained
from fallow.interfaces.render import cluster_json, cluster_text, why_text
from fallow.interfaces.render.as_json import protection_facts

_MOST_JOBS = 20


def lines(found: ClusterExplained, now_s: float) -> Iterator[str]:
    """Return the explanation for people, line by line."""
    if found.view is not None:
        yield from _now(found, found.view)
    for each in found.protections:
        yield f"  {with_its_end(each, now_s, {})}"
    yield from why_text.story(found.events, now_s)
    if not found.events:
        yield _no_entries(found.target, found.view)


def as_json(found: ClusterExplained) -> dict[str, Any]:
    """Return the explanation for programs."""
    view = found.view
    unknown = {} if found.trouble is None else {"events": str(found.trouble)}
    if view is not None and not view.jobs_listed:
        unknown["jobs"] = "; ".join(view.troubles)
    return {
        "version": VERSION,
        "subject": str(found.target),
        "watched": view is not None,
        "jobs": _jobs(view),
        "nodes": [cluster_json.node(node) for node in view.nodes] if view is not None and found.is_node else [],
        "protections": [protection_facts(each) for each in found.protections],
        "events": [why_text.event_facts(event) for event in found.events],
        "unknown": unknown,
    }


def _no_entries(target: OneClusterJob | ClusterPart, view: ClusterView | None) -> str:
    """Return what to print where the journal has nothing: what it has on an array is under the names of its tasks."""
    tasks = [] if view is None else [job.subject for job in view.jobs if job.key.startswith(f"{target}_")]
    if tasks:
        return f"the journal has entries on each task alone; see: fallow why {tasks[0]}"
    return "the journal has no entries on that"


def _now(found: ClusterExplained, view: ClusterView) -> list[str]:
    lines = [f"not read: {each}; nothing is stopped meanwhile" for each in view.troubles]
    if found.is_node:
        lines += [cluster_text.node_line(node) for node in view.nodes]
    if not view.jobs:
        lines.append(cluster_text.nothing_held(view, str(found.target)))
    for job in view.jobs[:_MOST_JOBS]:
        lines += cluster_text.job_lines(job)
    more = view.more_jobs + len(view.jobs) - _MOST_JOBS
    return [*lines, f"and {more} more jobs"] if more > 0 else lines


def _jobs(view: ClusterView | None) -> list[dict[str, Any]] | None:
    """Return the jobs; None if they could not be listed, and none is known of an earlier look."""
    if view is None:
        return []
    return [cluster_json.job(job) for job in view.jobs] if view.jobs or view.jobs_listed else None
