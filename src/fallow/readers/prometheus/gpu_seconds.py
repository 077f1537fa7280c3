"""Ask Prometheus what the GPUs of a cluster did in a span of time, by the seconds that /metrics counts."""

from math import ceil, isfinite
from urllib.parse import urlencode

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.http import RemoteHttp
from fallow.readers.prometheus.answer import LabelReader, vector
from fallow.readers.prometheus.eyes import MOST_BYTES
from fallow.readers.prometheus.queries import Ask

_ANSWERS_WITHIN_S = 60.0


def prometheus_at(clock: Clock, url: str, token_file: str) -> Ask:
    """Return what asks the Prometheus at an address."""
    return RemoteHttp(clock, url, token_file, MOST_BYTES)


def gpu_seconds(ask: Ask, by: str, since_s: float, until_s: float) -> dict[str, dict[str, float]] | Unknown:
    """Return for how many seconds GPUs were in each state, by the values of this label."""
    metric = f"fallow_cluster_{'node_' if by == 'node' else ''}gpu_seconds_total"
    query = f"sum by ({by}, state) (increase({metric}[{ceil(until_s - since_s)}s]))"
    form = urlencode({"query": query, "time": f"{until_s:.3f}"})
    answer = ask("GET", f"/api/v1/query?{form}", {}, _ANSWERS_WITHIN_S)
    found = answer if isinstance(answer, Unknown) else vector(answer, LabelReader((by, "state")))
    if isinstance(found, Unknown):
        return found
    made: dict[str, dict[str, float]] = {}
    for (name, state), seconds in found.items():
        if isfinite(seconds) and seconds > 0:
            made.setdefault(name, {})[state] = seconds
    return made
