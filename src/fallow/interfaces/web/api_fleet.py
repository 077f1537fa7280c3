"""`/api/v1/fleet`: the hosts that this daemon asks, and the sum of their reports."""

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.fleet import FLEET_KINDS, FleetBy
from fallow.engine.daemon.sources import Sources
from fallow.engine.fleet.report import added_up, asked_for, reports_of, told_by
from fallow.interfaces.render import fleet_json
from fallow.interfaces.render.as_json import iso_time
from fallow.interfaces.render.report_text import facts_of
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.api_history import SINCE_S, UNTIL_S, asked
from fallow.interfaces.web.api_routes import ApiRoutes
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.disk_reads import DiskReads
from fallow.interfaces.web.query_keys import word

_NO_FLEET = "the daemon asks no other hosts: its config has no hosts under [fleet]"
_NONE_HERE = {404: "The config names no other hosts."}


def add_fleet(api: ApiRoutes, sources: Sources, reads: DiskReads) -> None:
    """Add the routes for the fleet."""

    @api.get("/fleet", "Fleet", "The hosts of the fleet", problems=_NONE_HERE)
    async def fleet(request: Request) -> Response:
        board = sources.board()
        if board is None or board.fleet is None:
            raise Refused(404, "fleet", _NO_FLEET)
        return Json(fleet_json.fleet(board.fleet, board, caller_of(request).viewer))

    @api.get(
        "/fleet/report",
        "FleetReport",
        "Hours of each activity over all hosts of the fleet",
        keys=(SINCE_S, word("by", "user", FLEET_KINDS), UNTIL_S),
        problems=_NONE_HERE,
    )
    async def report(request: Request, since_s: float, by: FleetBy, until_s: float) -> Response:
        board, hosts = sources.board(), sources.fleet()
        if board is None or board.fleet is None:
            raise Refused(404, "fleet", _NO_FLEET)
        viewer, name = caller_of(request).viewer, board.status.host
        ends_s = min(until_s, since_s)

        def add() -> dict[str, object]:
            own = sources.report(since_s, viewer, ends_s)
            here = told_by(name, facts_of(own, asked_for(by)), by)
            span = {"since": iso_time(own.since_s), "until": iso_time(own.until_s)}
            return span | added_up([here, *reports_of(hosts, since_s, ends_s, by)], by)

        return Json(await asked(reads, request, add))
