"""The cluster as the page shows it, however large: the most wasteful jobs, and a small cell for each node."""

from fallow.core.cluster_view import ClusterView, JobLine, NodeLine, narrowed
from fallow.core.units import duration_for_people, shortened
from fallow.core.unknown import Unknown
from fallow.interfaces.render.cluster_text import (
    first_line,
    follows,
    held_words,
    idle_share,
    nothing_held,
    others_line,
    where,
)
from fallow.interfaces.web.view_models import Timer, View

_JOBS_SHOWN = 50
_NODES_SHOWN = 400
_TROUBLES_SHOWN = 5
_LONGEST_NAME = 40
_LONGEST_REASON = 160
_OLD_S = 300.0
_MINUTE_S = 60


def cluster(whole: ClusterView, now_s: float) -> View:
    """Return what the page shows of the cluster."""
    view = narrowed(whole, _JOBS_SHOWN, _NODES_SHOWN)
    old_s = max(0.0, now_s - view.at_wall_s)
    return {
        "first": first_line(whole),
        "others": others_line(whole),
        "old": old_s > _OLD_S,
        "looked": Timer("cluster-looked", f"{duration_for_people(old_s // _MINUTE_S * _MINUTE_S)} ago"),
        "acts": view.acts,
        "troubles": [shortened(each, _LONGEST_REASON) for each in view.troubles[:_TROUBLES_SHOWN]],
        "nothing": f"{(nothing := nothing_held(whole, None))[0].upper()}{nothing[1:]}.",
        "jobs": [_job(each) for each in view.jobs],
        "more_jobs": view.more_jobs,
        "nodes": [_node(each) for each in view.nodes],
        "more_nodes": view.more_nodes,
    }


def _job(line: JobLine) -> View:
    return {
        "subject": shortened(line.subject, _LONGEST_NAME),
        "name": "" if isinstance(line.name, Unknown) else shortened(line.name, _LONGEST_NAME),
        "user": shortened(line.user, _LONGEST_NAME) or "–",
        "where": shortened(where(line), _LONGEST_NAME),
        "idle": idle_share(line),
        "activity": line.activity.value,
        "lasted": Timer(f"cluster-{line.key}", duration_for_people(line.idle_s // _MINUTE_S * _MINUTE_S)),
        "is_idle": line.idle_s > 0,
        "because": shortened(line.because, _LONGEST_REASON),
        "follows": shortened(follows(line), _LONGEST_REASON),
    }


def _node(line: NodeLine) -> View:
    trouble = "" if line.trouble is None else f"; {shortened(line.trouble, _LONGEST_REASON)}"
    return {
        "name": shortened(line.name, _LONGEST_NAME),
        "state": _state(line),
        "held": f"{'?' if isinstance(line.held, Unknown) else line.held}/{line.gpus}",
        "said": f"{held_words(line)}{trouble}",
    }


def _state(line: NodeLine) -> str:
    if line.trouble is not None:
        return "out"
    if isinstance(line.held, Unknown) or (line.held and isinstance(line.idle, Unknown)):
        return "unknown"
    if not line.held:
        return "free"
    if line.held == line.filled:
        return "filled"
    return "idle" if line.idle else "busy"
