"""`/api/v1/fleet`: the hosts that this daemon asks, and the sum of their reports."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fallow.core.fleet import FleetBy
from fallow.engine.daemon.sources import Sources
from fallow.engine.fleet.report import added_up, asked_for, reports_of, told_by
from fallow.interfaces.render import fleet_json
from fallow.interfaces.render.as_json import iso_time
from fallow.interfaces.render.report_text import facts_of
from fallow.interfaces.web import fleet_models, models
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.api_history import WEEK_S, SinceS, UntilS, asked
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.disk_reads import DiskReads

_NO_FLEET = "the daemon asks no other hosts: its config has no hosts under [fleet]"
_NONE_HERE: dict[int | str, dict[str, Any]] = {
    404: {"model": models.Problem, "description": "The config names no other hosts."}
}


def add_fleet(api: APIRouter, sources: Sources, reads: DiskReads) -> None:
    """Add the routes for the fleet."""

    @api.get("/fleet", response_model=fleet_models.Fleet, responses=_NONE_HERE, summary="The hosts of the fleet")
    async def fleet(request: Request) -> Response:
        board = sources.board()
        if board is None or board.fleet is None:
            raise Refused(404, "fleet", _NO_FLEET)
        return Json(fleet_json.fleet(board.fleet, board, caller_of(request).viewer))

    @api.get(
        "/fleet/report",
        response_model=fleet_models.FleetReport,
        responses=_NONE_HERE,
        summary="Hours of each activity over all hosts of the fleet",
    )
    async def report(
        request: Request,
        since_s: SinceS = WEEK_S,
        by: FleetBy = "user",
        until_s: UntilS = 0.0,
    ) -> Response:
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
