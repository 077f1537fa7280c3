"""`/api/v1`: the same values as the command line, on the page and on the socket alike.

What a caller sees and may do follows from who they are (see caller.py):

    status, idle, rules               anybody; command lines as core/visibility shows them
    fillers, guards                   anybody
    cluster                           anybody; names of Slurm's jobs as command lines
    events, history, report, prices   anybody
    recent                            anybody
    protections                       anybody; placed and released in the name of who asks, on the page with the token
    protected, parked                 anybody
    wake                              the user of the job and root, on the socket
    reload                            root and the user of the daemon, on the socket
"""

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.board import Board
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import OLDEST_LOOK_S, IdleAnswer, all_idle, idle_answers
from fallow.core.money import Prices
from fallow.core.selection import select
from fallow.core.version import __version__
from fallow.core.visibility import Viewer
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.render import as_json
from fallow.interfaces.web import api_facts
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.caller import Refused, caller_of, demand_change, done, refusal
from fallow.interfaces.web.query import body_of, number, only, text, whole_in
from fallow.interfaces.web.routes import Routes

_LARGEST_ID = 2**31 - 1
_LONGEST_IDLE_S = 10 * 366 * 86400
_LONGEST_LIST = 200
_LOOK_EVERY_S = 0.1


def add_now(api: Routes, sources: Sources) -> None:
    """Add the routes for what the daemon saw at its last tick."""

    def board() -> Board:
        found = sources.board()
        if found is None:
            raise Refused(503, "early", "no GPU has been looked at yet")
        return found

    made: dict[Viewer, tuple[Board, bytes]] = {}

    @api.get("/api/v1/status")
    async def status(request: Request) -> Response:
        only(request)
        now = board()
        viewer = now.rights_of(caller_of(request).viewer)
        if viewer not in made or made[viewer][0] is not now:  # render once per tick and viewer
            for old in [each for each, (then, _) in made.items() if then is not now]:
                del made[old]
            made[viewer] = (
                now,
                bytes(Json(as_json.status(now.as_seen_by(viewer), now.protections, now.counting)).body),
            )
        return Response(made[viewer][1], media_type=Json.media_type)

    @api.get("/api/v1/idle")
    async def idle(request: Request) -> Response:
        only(request, "for_s", "gpus")
        for_s = number(request, "for_s", 0.0, least=0, most=_LONGEST_IDLE_S)
        gpus = text(request, "gpus", longest=_LONGEST_LIST)

        def now() -> tuple[Status, tuple[IdleAnswer, ...]]:
            status = board().status
            if gpus is not None:
                try:
                    status = status.among(frozenset(gpu.label for gpu in select(gpus, status.gpus)))
                except WrongUsage as error:
                    raise Refused(404, "usage", str(error)) from None
            return status, idle_answers(status, for_s, sources.clock.wall_s())

        asked_wall_s = sources.clock.wall_s()
        status, answers = now()
        until_s = sources.clock.monotonic_s() + OLDEST_LOOK_S
        while status.wall_s < asked_wall_s and any(each.idle for each in answers):
            if sources.clock.monotonic_s() > until_s:
                raise Refused(503, "late", "the daemon has not looked since the question")
            await asyncio.sleep(_LOOK_EVERY_S)  # a job may have begun since the daemon looked
            status, answers = now()
        return Json(as_json.idle(answers, for_s, all_idle(answers)))

    @api.get("/api/v1/rules")
    async def rules(request: Request) -> Response:
        only(request)
        return Json({"rules": api_facts.plain(board().counting)})

    @api.get("/api/v1/fillers")
    async def fillers(request: Request) -> Response:
        only(request)
        return Json({"fillers": api_facts.plain(board().fillers)})

    @api.get("/api/v1/guards")
    async def guards(request: Request) -> Response:
        only(request)
        return Json({"guards": api_facts.plain(board().guards)})

    @api.get("/api/v1/prices")
    async def prices(request: Request) -> Response:
        only(request)
        now = sources.board()
        return Json(api_facts.plain(Prices() if now is None else now.prices))

    @api.get("/api/v1/protected")
    async def protected(request: Request) -> Response:
        only(request)
        return Json(api_facts.plain(board().protected))

    @api.get("/api/v1/daemon")
    async def daemon(request: Request) -> Response:
        only(request)
        now, now_s = sources.board(), sources.clock.wall_s()
        return Json(
            {
                "fallow": __version__,
                "simulated": sources.simulated,
                "pid": os.getpid(),
                "user": sources.user,
                "config": None if now is None else now.config,
                "dry_run": None if now is None else now.is_dry_run,
                "up_s": None if now is None else now_s - now.started_wall_s,
                "looked_s_ago": None if now is None else now_s - now.status.wall_s,
            }
        )


def add_changes(api: Routes, sources: Sources) -> None:
    """Add the routes that change something."""

    @api.get("/api/v1/protections")
    async def protections(request: Request) -> Response:
        only(request)
        return Json({"protections": [as_json.protection_facts(each) for each in sources.protections()]})

    @api.post("/api/v1/protections")
    async def place(request: Request) -> Response:
        only(request)
        who = demand_change(request)
        sent = await body_of(request, {"subject": str, "for_s": (int, float), "why": str})
        if not {"subject", "for_s"} <= sent.keys():
            raise Refused(422, "usage", "subject and for_s are needed in the body")
        placed = done(lambda: sources.protect(sent["subject"], sent["for_s"], sent.get("why", ""), who))
        return Json(as_json.protection_facts(placed), 201)

    @api.delete("/api/v1/protections/{number}")
    async def release(request: Request) -> Response:
        only(request)
        who = demand_change(request)
        found = whole_in("number", request.path_params["number"], least=1, most=_LARGEST_ID)
        done(lambda: sources.release_protection(found, who))
        return Response(status_code=204)

    @api.get("/api/v1/parked")
    async def parked(request: Request) -> Response:
        only(request)
        return Json({"parked": [as_json.parked_facts(job) for job in sources.parked()]})

    @api.post("/api/v1/wake")
    async def wake(request: Request) -> Response:
        only(request)
        subject = (await body_of(request, {"subject": str})).get("subject", "")
        begun = done(lambda: sources.wake(subject, caller_of(request).peer))
        try:
            woken = await asyncio.wrap_future(begun)
        except FallowError as error:
            raise refusal(error) from None
        jobs = [{**as_json.parked_facts(job), "refused": why_not} for job, why_not in woken.jobs]
        return Json({"jobs": jobs})

    @api.post("/api/v1/reload")
    async def reload(request: Request) -> Response:
        only(request)
        came = done(lambda: sources.reload(caller_of(request).peer))
        return Json(api_facts.plain(await asyncio.wrap_future(came)))
