"""Render the cluster as JSON: what `/api/v1/cluster` answers and `fallow status --cluster --json` prints."""

from math import isinf
from typing import Any

from fallow.core.api import VERSION
from fallow.core.cluster_view import ClusterView, JobLine, NodeLine
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.engine.answers.cluster_idle import ClusterIdle, JobAnswer
from fallow.interfaces.render.as_json import iso_time, reason_facts, with_reasons

_PLAIN = (
    *("key", "subject", "name", "user", "gpus", "idle_gpus", "unknown_gpus", "interactive"),
    *("idle_s", "could_do_with", "rule", "refused", "left_alone", "opt_out", "no_way"),
)


def cluster(view: ClusterView) -> dict[str, Any]:
    """Return the whole cluster."""
    facts = {
        "version": VERSION,
        "engine": view.engine.value,
        "at": iso_time(view.at_wall_s),
        "acts": view.acts,
        "troubles": list(view.troubles),
        "jobs_listed": view.jobs_listed,
        "total_gpus": view.total,
        **{f"{state}_gpus": number for state, number in view.counts.items()},
        "pending_gpus": view.pending,
    }
    return with_reasons(facts) | {
        "jobs": [job(each) for each in view.jobs],
        "more_jobs": view.more_jobs,
        "nodes": [node(each) for each in view.nodes],
        "more_nodes": view.more_nodes,
    }


def job(line: JobLine) -> dict[str, Any]:
    """Return one job."""
    started = line.started_wall_s
    facts = {
        **{name: getattr(line, name) for name in _PLAIN},
        "nodes": list(line.nodes),
        "labels": dict(line.labels),
        "started": started if isinstance(started, Unknown) else iso_time(started),
        "activity": line.activity.value,
        **reason_facts(line),
        "next": line.action,
        "in_s": None if isinf(line.in_s) else line.in_s,
        "uses": [{"place": place, "activity": did, "because": why} for place, did, why in line.uses],
    }
    return with_reasons(facts)


def node(line: NodeLine) -> dict[str, Any]:
    """Return one node."""
    return with_reasons({name: getattr(line, name) for name in fields(NodeLine)} | {"labels": dict(line.labels)})


def idle(found: ClusterIdle) -> dict[str, Any]:
    """Return what `fallow idle` prints of a part of a cluster."""
    return {
        "version": VERSION,
        "idle": found.together,
        "asked_for_s": found.asked_for_s,
        "jobs": [{name: getattr(each, name) for name in fields(JobAnswer)} for each in found.answers],
        "unknown": {"idle": found.because} if found.together is None else {},
    }
