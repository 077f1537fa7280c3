"""Make the view of a cluster of the API's JSON. Facts of the wrong shape raise KeyError, TypeError or ValueError."""

from collections.abc import Mapping
from math import inf
from typing import Any

from fallow.core.cluster import Engine
from fallow.core.cluster_view import ClusterView, GpuState, JobLine, NodeLine
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.engine.machine.from_json import fact, reason, wall_s

Facts = Mapping[str, Any]
_OTHERWISE = ("reason", "started_wall_s", "action", "in_s", "uses", "nodes", "name", "activity")


def cluster(facts: Facts) -> ClusterView:
    """Return the whole cluster."""
    return ClusterView(
        Engine(facts["engine"]),
        wall_s(facts["at"]),
        facts["acts"],
        tuple(facts["troubles"]),
        {state.value: fact(facts, f"{state.value}_gpus") for state in GpuState},
        tuple(_job(each) for each in facts["jobs"]),
        tuple(NodeLine(**{name: fact(each, name) for name in fields(NodeLine)}) for each in facts["nodes"]),
        fact(facts, "pending_gpus"),
        facts["more_jobs"],
        facts["more_nodes"],
        facts["jobs_listed"],
    )


def _job(facts: Facts) -> JobLine:
    started = fact(facts, "started")
    return JobLine(
        **{name: facts[name] for name in fields(JobLine) if name not in _OTHERWISE},
        name=fact(facts, "name"),
        nodes=tuple(facts["nodes"]),
        started_wall_s=started if isinstance(started, Unknown) else wall_s(started),
        activity=GpuState(facts["activity"]),
        reason=reason(facts),
        action=facts["next"],
        in_s=inf if facts["in_s"] is None else facts["in_s"],
        uses=tuple((each["place"], each["activity"], each["because"]) for each in facts["uses"]),
    )
