"""The JSON of a fleet: this machine, and each host with its status or why it is silent."""

from typing import Any

from fallow.core.api import VERSION
from fallow.core.board import Board
from fallow.core.fleet import FleetBoard, FleetHost
from fallow.core.visibility import Viewer
from fallow.interfaces.render import as_json


def fleet(found: FleetBoard, board: Board, viewer: Viewer) -> dict[str, Any]:
    """Return what `/api/v1/fleet` answers; this machine comes first."""
    own = board.as_seen_by(viewer)
    here = {
        "name": own.host,
        "here": True,
        "since": as_json.iso_time(board.started_wall_s),
        "status": as_json.status(own, board.protections, board.counting),
        **_no_error(),
    }
    return {"version": VERSION, "hosts": [here, *(facts_of(host) for host in found.hosts)]}


def facts_of(host: FleetHost) -> dict[str, Any]:
    """Return one host: what its daemon told, or why there is nothing."""
    about = {"name": host.name, "here": False, "since": as_json.iso_time(host.since_wall_s), "status": host.facts}
    why = host.silent
    if why is None:
        return about | _no_error()
    return about | {"error": str(why), "reason": why.kind, "facts": why.plain_facts}


def _no_error() -> dict[str, Any]:
    return {"error": None, "reason": None, "facts": {}}
