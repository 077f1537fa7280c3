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

from fallow import __version__
from fallow.core.board import Board
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import OLDEST_LOOK_S, IdleAnswer, all_idle, idle_answers
from fallow.core.money import Prices
from fallow.core.selection import select
from fallow.core.visibility import Viewer
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.render import as_json
from fallow.interfaces.web import api_facts
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.api_routes import ApiRoutes
from fallow.interfaces.web.bodies import NewProtection, Wish
from fallow.interfaces.web.caller import Refused, caller_of, done, refusal
from fallow.interfaces.web.query_keys import number, text, whole

_LARGEST_ID = 2**31 - 1
_LONGEST_IDLE_S = 10 * 366 * 86400
_LONGEST_LIST = 200
_LOOK_EVERY_S = 0.1
_GUARD_PROBLEMS = {
    400: "It is no JSON.",
    401: "It needs the token.",
    403: "It is not allowed.",
    404: "There is no such thing.",
    409: "The daemon cannot do it for who asks; they can themselves.",
}


def add_now(api: ApiRoutes, sources: Sources) -> None:
    """Add the routes for what the daemon saw at its last tick."""

    def board() -> Board:
        found = sources.board()
        if found is None:
            raise Refused(503, "early", "no GPU has been looked at yet")
        return found

    made: dict[Viewer, tuple[Board, bytes]] = {}

    @api.get("/status", "Status", "All GPUs at the last tick")
    async def status(request: Request) -> Response:
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

    @api.get(
        "/idle",
        "Idle",
        "Whether GPUs have been idle for so long",
        keys=(
            number("for_s", 0.0, least=0, most=_LONGEST_IDLE_S),
            text("gpus", None, longest=_LONGEST_LIST),
        ),
        problems={404: "There is no such GPU."},
    )
    async def idle(_: Request, for_s: float, gpus: str | None) -> Response:
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

    @api.get("/rules", "Rules", "What the idle rules count")
    async def rules(_: Request) -> Response:
        return Json({"rules": api_facts.plain(board().counting)})

    @api.get("/fillers", "Fillers", "The fillers and what they do")
    async def fillers(_: Request) -> Response:
        return Json({"fillers": api_facts.plain(board().fillers)})

    @api.get("/guards", "Guards", "The guards and what they wait for")
    async def guards(_: Request) -> Response:
        return Json({"guards": api_facts.plain(board().guards)})

    @api.get("/prices", "Prices", "What an hour of a GPU costs, by the config")
    async def prices(_: Request) -> Response:
        now = sources.board()
        return Json(api_facts.plain(Prices() if now is None else now.prices))

    @api.get("/protected", "ProtectedForGood", "What [protect] of the config names")
    async def protected(_: Request) -> Response:
        return Json(api_facts.plain(board().protected))

    @api.get("/daemon", "Daemon", "The daemon itself")
    async def daemon(_: Request) -> Response:
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


def add_changes(api: ApiRoutes, sources: Sources) -> None:
    """Add the routes that change something."""

    @api.get("/protections", "Protections", "The protections in force")
    async def protections(_: Request) -> Response:
        return Json({"protections": [as_json.protection_facts(each) for each in sources.protections()]})

    @api.post(
        "/protections",
        "Protection",
        "Protect a subject",
        code=201,
        body=NewProtection,
        problems=_GUARD_PROBLEMS,
        guarded=True,
    )
    async def place(request: Request, body: NewProtection) -> Response:
        who = caller_of(request).acts_as
        placed = done(lambda: sources.protect(body.subject, body.for_s, body.why, who))
        return Json(as_json.protection_facts(placed), 201)

    @api.delete(
        "/protections/{number}",
        "End a protection before its time",
        keys=(whole("number", least=1, most=_LARGEST_ID),),
        problems=_GUARD_PROBLEMS,
    )
    async def release(request: Request, number: int) -> Response:
        done(lambda: sources.release_protection(number, caller_of(request).acts_as))
        return Response(status_code=204)

    @api.get("/parked", "Parkeds", "The jobs that are parked, or on their way")
    async def parked(_: Request) -> Response:
        return Json({"parked": [as_json.parked_facts(job) for job in sources.parked()]})

    @api.post(
        "/wake",
        "Woken",
        "Begin to wake parked jobs",
        body=Wish,
        problems={403: "Only their user and root may."},
    )
    async def wake(request: Request, body: Wish) -> Response:
        begun = done(lambda: sources.wake(body.subject, caller_of(request).peer))
        try:
            woken = await asyncio.wrap_future(begun)
        except FallowError as error:
            raise refusal(error) from None
        jobs = [{**as_json.parked_facts(job), "refused": why_not} for job, why_not in woken.jobs]
        return Json({"jobs": jobs})

    @api.post(
        "/reload",
        "Reloaded",
        "Load the config again",
        problems={403: "Only root and the daemon's user, by the socket."},
    )
    async def reload(request: Request) -> Response:
        came = done(lambda: sources.reload(caller_of(request).peer))
        return Json(api_facts.plain(await asyncio.wrap_future(came)))
