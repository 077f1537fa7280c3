"""`/api/v1`: the same values as the command line, for programs."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.security import HTTPBearer

from fallow.core.board import Board
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.interfaces.render import as_json
from fallow.interfaces.render.report_text import facts_of
from fallow.interfaces.web import models
from fallow.interfaces.web.cached_reads import CachedReads
from fallow.interfaces.web.settings import Settings
from fallow.interfaces.web.sources import NoSuchSubject, Sources
from fallow.policies.cost import By

_WEEK_S = 7 * 86400.0
_LONGEST_REPORT_S = 3660 * 86400.0
_LARGEST_ID = 2**31 - 1
_bearer = HTTPBearer(auto_error=False, description="The token of the page.")


def need_token(request: Request) -> None:
    """Let on only those who know the token."""
    settings: Settings = request.app.state.settings
    if settings.token is None:
        raise HTTPException(403, "nobody can do this here: the config names no token_file")
    if not request.state.known:
        raise HTTPException(401, "this needs the token", {"www-authenticate": "Bearer"})


def refused(error: FallowError) -> HTTPException:
    """The answer to what could not be done."""
    if isinstance(error, NoSuchSubject):
        return HTTPException(404, str(error))
    return HTTPException(403 if isinstance(error, NotPermitted) else 422, str(error))


def make_api(sources: Sources, archive: CachedReads) -> APIRouter:
    """All of it."""
    api = APIRouter(prefix="/api/v1", responses=models.PROBLEMS)
    _add_now(api, sources)
    _add_past(api, sources, archive)
    _add_protections(api, sources)
    return api


def _add_now(api: APIRouter, sources: Sources) -> None:
    def board() -> Board:
        found = sources.board()
        if found is None:
            raise HTTPException(503, "no GPU has been looked at yet")
        return found

    Now = Annotated[Board, Depends(board)]  # noqa: N806  a type

    @api.get("/status", response_model=models.Status, summary="All GPUs at the last tick")
    async def status(request: Request, now: Now) -> Any:  # noqa: ANN401  the model says what it is
        return as_json.status(now.as_seen_by(request.state.viewer), now.protections, now.counting)

    @api.get("/fillers", response_model=list[models.Filler], summary="The fillers and what they do")
    async def fillers(now: Now) -> Any:  # noqa: ANN401
        return [{name: getattr(one, name) for name in fields(type(one))} for one in now.fillers]

    @api.get("/guards", response_model=list[models.Guard], summary="The guards and what they wait for")
    async def guards(now: Now) -> Any:  # noqa: ANN401
        return [{name: getattr(one, name) for name in fields(type(one))} for one in now.guards]


def _add_past(api: APIRouter, sources: Sources, archive: CachedReads) -> None:
    @api.get(
        "/history",
        response_model=models.History,
        responses={404: {"model": models.Problem, "description": "There is no such GPU."}},
        summary="What each GPU did, as intervals",
    )
    async def history(
        since_s: Annotated[float, Query(gt=0, le=_WEEK_S, allow_inf_nan=False)] = 86400.0,
        gpu: Annotated[
            str | None, Query(max_length=80, description="The UUID of one; all if it is left out.")
        ] = None,
    ) -> Any:  # noqa: ANN401
        now = sources.board()
        cards = {} if now is None else {one.uuid: one.label for one in now.status.gpus}
        known = {uuid: label for uuid, label in cards.items() if not isinstance(uuid, Unknown)}
        if gpu is not None and gpu not in known:
            raise HTTPException(404, "there is no GPU of that UUID")
        wanted = known if gpu is None else {gpu: known[gpu]}
        until_s = sources.clock.wall_s()
        strips = await _asked(archive, lambda: {uuid: sources.strip(uuid, since_s) for uuid in wanted})
        return {
            "since": as_json.iso_time(until_s - since_s),
            "until": as_json.iso_time(until_s),
            "gpus": [
                {
                    "uuid": uuid,
                    "gpu": label,
                    "intervals": [
                        {
                            "begin": as_json.iso_time(one.begin_ms / 1000),
                            "end": as_json.iso_time(one.end_ms / 1000),
                            "activity": one.activity.value,
                            "users": sorted({party.user for party in one.parties}),
                        }
                        for one in strips[uuid]
                    ],
                }
                for uuid, label in wanted.items()
            ],
        }

    @api.get("/report", response_model=models.Report, summary="Hours of each activity, and what the idle ones cost")
    async def report(
        request: Request,
        since_s: Annotated[float, Query(gt=0, le=_LONGEST_REPORT_S, allow_inf_nan=False)] = _WEEK_S,
        by: By = By.GPU,
    ) -> Any:  # noqa: ANN401
        return await _asked(archive, lambda: facts_of(sources.report(since_s, request.state.viewer), by))

    @api.get("/events", response_model=list[models.Event], summary="The last lines of the journal, newest first")
    async def events(limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Any:  # noqa: ANN401
        found = await _asked(archive, lambda: sources.events(limit))
        return [
            {
                "id": event.id,
                "at": as_json.iso_time(event.wall_s),
                "kind": event.kind,
                "subject": event.subject,
                "finding": event.finding,
                "because": event.because,
                "evidence": list(event.evidence),
            }
            for event in found
        ]


def _add_protections(api: APIRouter, sources: Sources) -> None:
    @api.get("/protections", response_model=list[models.Protection], summary="The protections that last")
    async def protections() -> Any:  # noqa: ANN401
        return [as_json.protection_facts(protection) for protection in sources.protections()]

    guarded: Any = {
        "dependencies": [Depends(_bearer), Depends(need_token)],
        "responses": models.TOKEN_PROBLEMS,
    }

    @api.post(
        "/protections", status_code=201, response_model=models.Protection, summary="Leave this alone", **guarded
    )
    async def place(wanted: models.NewProtection) -> Any:  # noqa: ANN401
        try:
            return as_json.protection_facts(sources.protect(wanted.subject, wanted.for_s, wanted.why))
        except FallowError as error:
            raise refused(error) from None

    @api.delete("/protections/{number}", status_code=204, summary="End a protection before its time", **guarded)
    async def release(number: Annotated[int, Path(ge=1, le=_LARGEST_ID)]) -> None:
        try:
            sources.release_protection(number)
        except FallowError as error:
            raise refused(error) from None


async def _asked(archive: CachedReads, question: Any) -> Any:  # noqa: ANN401
    try:
        return await archive.ask(question)
    except FallowError as error:
        raise HTTPException(503, str(error)) from None
