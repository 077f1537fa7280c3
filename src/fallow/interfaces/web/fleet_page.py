"""The fleet as the page shows it: one line for each host, and since when a silent one is."""

from fallow.core.fleet import FleetBoard, FleetHost
from fallow.core.units import duration_for_people, shortened
from fallow.interfaces.web.view_models import Timer, View

_LONGEST = 160
_MINUTE_S = 60


def fleet(found: FleetBoard, now_s: float) -> View:
    """Return what the page shows of the fleet."""
    return {"up": found.up, "hosts": [_host(host, now_s) for host in found.hosts]}


def _host(host: FleetHost, now_s: float) -> View:
    lasted_s = max(0.0, now_s - host.since_wall_s) // _MINUTE_S * _MINUTE_S
    status = host.status
    return {
        "name": host.name,
        "up": status is not None,
        "gpus": 0 if status is None else len(status.gpus),
        "said": shortened(str(host.silent) if status is None else status.in_words, _LONGEST),
        "lasted": Timer(f"fleet-{host.name}", duration_for_people(lasted_s)),
    }
