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
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.security import HTTPBearer
from pydantic import WithJsonSchema
from starlette.responses import Response

from fallow import __version__
from fallow.core.board import Board
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import IdleAnswer, all_idle, idle_answers
from fallow.core.money import Prices
from fallow.core.selection import select
from fallow.core.visibility import Viewer
from fallow.engine.conditions.gpus import LOOK_EVERY_S
from fallow.engine.conditions.parse import OfProcesses, parse_job_condition
from fallow.engine.daemon.sources import Peer, Sources
from fallow.interfaces.render import as_json
from fallow.interfaces.web import api_facts, models
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.caller import Caller, Refused, caller_of, demand_change, done, refusal

_LARGEST_ID = 2**31 - 1
_LONGEST_IDLE_S = 10 * 366 * 86400
_LONGEST_LIST = 200
_MOST_CONDITIONS = 4
# The parser decides, and words the mistake; what fits this pattern is always right.
_PATTERN = r"^(cpu:[1-9][0-9]{0,3}|(io|net):[1-9][0-9]{0,5}(KB|MB|GB)|jupyter(:[1-9][0-9]{0,3}[smh])?)$"
_Condition = Annotated[str, WithJsonSchema({"type": "string", "pattern": _PATTERN})]
_bearer = HTTPBearer(auto_error=False, description="The token of the page; on the socket none is needed.")


async def _changing(request: Request) -> Peer | None:  # FastAPI would call a plain function in a thread
    return demand_change(request)


Changing = Annotated[Peer | None, Depends(_changing)]
_GUARDED: dict[str, Any] = {"dependencies": [Depends(_bearer)], "responses": models.TOKEN_PROBLEMS}


def add_now(api: APIRouter, sources: Sources) -> None:
    """Add the routes for what the daemon saw at its last tick."""

    async def board() -> Board:
        found = sources.board()
        if found is None:
            raise Refused(503, "early", "no GPU has been looked at yet")
        return found

    Now = Annotated[Board, Depends(board)]  # noqa: N806  a type
    made: dict[Viewer, tuple[Board, bytes]] = {}
    asking: set[str] = set()

    @api.get("/status", response_model=models.Status, summary="All GPUs at the last tick")
    async def status(request: Request, now: Now) -> Response:
        viewer = now.rights_of(caller_of(request).viewer)
        if viewer not in made or made[viewer][0] is not now:  # render once per tick and viewer
            for old in [each for each, (board, _) in made.items() if board is not now]:
                del made[old]
            made[viewer] = (
                now,
                bytes(Json(as_json.status(now.as_seen_by(viewer), now.protections, now.counting)).body),
            )
        return Response(made[viewer][1], media_type=Json.media_type)

    @api.get(
        "/idle",
        response_model=models.Idle,
        summary="Whether GPUs have been idle for so long",
        responses={
            403: {"model": models.Problem, "description": "A GPU has processes of others, of whom this is not told."},
            404: {"model": models.Problem, "description": "There is no such GPU."},
            429: {"model": models.Problem, "description": "Who asks has asked already, and is not answered yet."},
        },
    )
    async def idle(
        request: Request,
        now: Now,
        for_s: Annotated[float, Query(ge=0, le=_LONGEST_IDLE_S)] = 0.0,
        gpus: Annotated[str | None, Query(max_length=_LONGEST_LIST)] = None,
        unless: Annotated[list[_Condition] | None, Query(max_length=_MOST_CONDITIONS)] = None,
    ) -> Response:
        status = now.status
        if gpus is not None:
            try:
                status = status.among(frozenset(gpu.label for gpu in select(gpus, status.gpus)))
            except WrongUsage as error:
                raise Refused(404, "usage", str(error)) from None
        answers = idle_answers(status, for_s, sources.clock.wall_s())
        if unless:
            caller = caller_of(request)
            if caller.key in asking:
                raise Refused(
                    429, "busy", "your last question with `unless` is not answered yet", {"retry-after": "1"}
                )
            asking.add(caller.key)
            try:
                answers = await _by_conditions(sources, unless, status, answers, caller)
            finally:
                asking.discard(caller.key)
        return Json(as_json.idle(answers, for_s, all_idle(answers)))

    @api.get("/rules", response_model=models.Rules, summary="What the idle rules count")
    async def rules(now: Now) -> Response:
        return Json({"rules": api_facts.plain(now.counting)})

    @api.get("/fillers", response_model=models.Fillers, summary="The fillers and what they do")
    async def fillers(now: Now) -> Response:
        return Json({"fillers": api_facts.plain(now.fillers)})

    @api.get("/guards", response_model=models.Guards, summary="The guards and what they wait for")
    async def guards(now: Now) -> Response:
        return Json({"guards": api_facts.plain(now.guards)})

    @api.get("/prices", response_model=models.Prices, summary="What an hour of a GPU costs, by the config")
    async def prices() -> Response:
        now = sources.board()
        return Json(api_facts.plain(Prices() if now is None else now.prices))

    @api.get("/protected", response_model=models.ProtectedForGood, summary="What [protect] of the config names")
    async def protected(now: Now) -> Response:
        return Json(api_facts.plain(now.protected))

    @api.get("/daemon", response_model=models.Daemon, summary="The daemon itself")
    async def daemon() -> Response:
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


async def _by_conditions(
    sources: Sources, texts: list[str], status: Status, answers: tuple[IdleAnswer, ...], caller: Caller
) -> tuple[IdleAnswer, ...]:
    """Return the answers by conditions too, as far as who asks may look into the processes.

    The daemon has more rights than they, so it opens no address and looks at no file for them.
    """
    try:
        others = [text for text in texts if not isinstance(parse_job_condition(text), OfProcesses)]
    except WrongUsage as error:
        raise Refused(422, "usage", str(error)) from None
    if others:
        ways = "write cpu:50, io:5MB, net:1MB or jupyter, or ask by `fallow idle --unless`"
        raise Refused(422, "usage", f"{others[0]!r} is not asked for others; {ways}")
    question = done(lambda: sources.conditions.ask(texts, status, answers, caller.may_look_into))
    while (found := question.look()) is None:
        await asyncio.sleep(LOOK_EVERY_S)
    return found


def add_changes(api: APIRouter, sources: Sources) -> None:
    """Add the routes that change something."""

    @api.get("/protections", response_model=models.Protections, summary="The protections in force")
    async def protections() -> Response:
        return Json({"protections": [as_json.protection_facts(each) for each in sources.protections()]})

    @api.post(
        "/protections", status_code=201, response_model=models.Protection, summary="Protect a subject", **_GUARDED
    )
    async def place(wanted: models.NewProtection, peer: Changing) -> Response:
        placed = done(lambda: sources.protect(wanted.subject, wanted.for_s, wanted.why, peer))
        return Json(as_json.protection_facts(placed), 201)

    @api.delete("/protections/{number}", status_code=204, summary="End a protection before its time", **_GUARDED)
    async def release(number: Annotated[int, Path(ge=1, le=_LARGEST_ID)], peer: Changing) -> None:
        done(lambda: sources.release_protection(number, peer))

    @api.get("/parked", response_model=models.Parkeds, summary="The jobs that are parked, or on their way")
    async def parked() -> Response:
        return Json({"parked": [as_json.parked_facts(job) for job in sources.parked()]})

    @api.post(
        "/wake",
        response_model=models.Woken,
        responses={**models.PROBLEMS, 403: {"model": models.Problem, "description": "Only their user and root may."}},
        summary="Begin to wake parked jobs",
    )
    async def wake(wish: models.Wish, request: Request) -> Response:
        begun = done(lambda: sources.wake(wish.subject, caller_of(request).peer))
        try:
            woken = await asyncio.wrap_future(begun)
        except FallowError as error:
            raise refusal(error) from None
        jobs = [{**as_json.parked_facts(job), "refused": why_not} for job, why_not in woken.jobs]
        return Json({"jobs": jobs})

    @api.post(
        "/reload",
        response_model=models.Reloaded,
        responses={403: {"model": models.Problem, "description": "Only root and the daemon's user, by the socket."}},
        summary="Load the config again",
    )
    async def reload(request: Request) -> Response:
        came = done(lambda: sources.reload(caller_of(request).peer))
        return Json(api_facts.plain(await asyncio.wrap_future(came)))
