"""`/api/v1` for the past: events of the journal, and history."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.errors import FallowError
from fallow.core.gpu import labels_of
from fallow.core.visibility import interval_seen_by
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.reader import HistoryReader
from fallow.interfaces.render.as_json import iso_time
from fallow.interfaces.render.report_text import facts_of
from fallow.interfaces.web import api_facts
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.api_routes import ApiRoutes
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.query_keys import REQUIRED, Key, number, text, whole, word
from fallow.policies.cost import By

WEEK_S = 7 * 86400.0
_LONGEST_REPORT_S = 3660 * 86400.0
_LONGEST_PICTURE_MS = 32 * 86_400_000
_MOST_EDGES = 64
_LATEST_MS = 2**53
_EDGES = rf"^[0-9]{{1,15}}(,[0-9]{{1,15}}){{1,{_MOST_EDGES - 1}}}$"

T = TypeVar("T")
SINCE_S = number("since_s", WEEK_S, above=0, most=_LONGEST_REPORT_S)
"""How many seconds before now a report begins."""
UNTIL_S = number("until_s", 0.0, least=0, most=_LONGEST_REPORT_S, meaning="Seconds before now it ends.")
_KEY = text(
    "key", None, longest=200, meaning="Only those about `gpu:UUID`, `pid:PID`, `pid:PID@BIRTH` or `user:NAME`."
)


def _uuid(default: object = REQUIRED) -> Key:
    return text("gpu", default, longest=80, meaning="The UUID of a GPU.")


def _moment(name: str, default: object = REQUIRED) -> Key:
    return whole(name, default, least=0, most=_LATEST_MS, meaning="Milliseconds since the epoch.")


def add_past(api: ApiRoutes, sources: Sources) -> None:
    """Add the routes for the journal, and for reports from history."""

    @api.get(
        "/events",
        "Events",
        "The last lines of the journal, newest first",
        keys=(whole("limit", 50, least=1, most=500), _KEY),
    )
    async def events(_: Request, limit: int, key: str | None) -> Response:
        found = await asked(lambda: sources.events(key, limit))
        return Json({"events": [api_facts.event(each) for each in found]})

    @api.get(
        "/report",
        "Report",
        "Hours of each activity, and what idle ones cost",
        keys=(SINCE_S, word("by", By.GPU.value, [each.value for each in By]), UNTIL_S),
    )
    async def report(request: Request, since_s: float, by: str, until_s: float) -> Response:
        viewer = caller_of(request).viewer
        ends_s = min(until_s, since_s)
        return Json(await asked(lambda: facts_of(sources.report(since_s, viewer, ends_s), By(by))))

    @api.get(
        "/history",
        "History",
        "What each GPU did, as intervals",
        keys=(number("since_s", 86400.0, above=0, most=WEEK_S), _uuid(None)),
        problems={404: "There is no such GPU."},
    )
    async def history(_: Request, since_s: float, gpu: str | None) -> Response:
        now = sources.board()
        known = {} if now is None else labels_of(now.status.gpus)
        if gpu is not None and gpu not in known:
            raise Refused(404, "usage", "there is no GPU of that UUID")
        wanted = known if gpu is None else {gpu: known[gpu]}
        until_s = sources.clock.wall_s()
        strips = await asked(lambda: {uuid: sources.strip(uuid, since_s) for uuid in wanted})
        gpus = [
            {"uuid": uuid, "gpu": label, "intervals": [api_facts.interval(one) for one in strips[uuid]]}
            for uuid, label in wanted.items()
        ]
        return Json({"since": iso_time(until_s - since_s), "until": iso_time(until_s), "gpus": gpus})


def add_raw_history(api: ApiRoutes, sources: Sources) -> None:
    """Add the routes for history as `fallow report` needs it, to add it up with the caller's prices and days."""

    def read(question: Callable[[HistoryReader], Sequence[T]]) -> Sequence[T]:
        past = sources.past()
        if past is None:
            return []
        try:
            return question(past)
        finally:
            past.close()

    @api.get("/history/gpus", "HistoryGpus", "Every GPU that history knows")
    async def gpus(_: Request) -> Response:
        found = await asked(lambda: read(lambda past: list(past.cards().values())))
        return Json({"gpus": api_facts.plain(found)})

    @api.get(
        "/history/tallies",
        "Tallies",
        "Witnessed time between each two moments",
        keys=(text("edges", pattern=_EDGES, meaning=f"2 to {_MOST_EDGES} moments in ms since the epoch."),),
    )
    async def tallies(request: Request, edges: str) -> Response:
        moments = sorted({int(each) for each in edges.split(",")})
        viewer = sources.rights_of(caller_of(request).viewer)
        found = await asked(lambda: read(lambda past: past.tallies(moments)))
        return Json({"tallies": api_facts.plain([interval_seen_by(each, viewer) for each in found])})

    @api.get(
        "/history/quarters",
        "Quarters",
        "Time of each activity by quarter hour",
        keys=(_moment("since_ms"), _moment("until_ms")),
    )
    async def quarters(_: Request, since_ms: int, until_ms: int) -> Response:
        begin_ms = max(since_ms, until_ms - _LONGEST_PICTURE_MS)
        found = await asked(lambda: read(lambda past: past.quarters(begin_ms, until_ms)))
        return Json({"quarters": api_facts.plain(found)})

    @api.get(
        "/history/activities",
        "Stretches",
        "What one GPU did, for a picture",
        keys=(_uuid(), _moment("since_ms"), _moment("until_ms"), _moment("finest_ms", 0)),
    )
    async def activities(_: Request, gpu: str, since_ms: int, until_ms: int, finest_ms: int) -> Response:
        begin_ms = max(since_ms, until_ms - _LONGEST_PICTURE_MS)
        found = await asked(lambda: read(lambda past: past.colours(gpu, begin_ms, until_ms, finest_ms)))
        return Json({"activities": api_facts.plain(found)})


async def answered(answer: Awaitable[T]) -> T:
    """Return an answer that is read from the disk; what cannot be read is a 503 with its sentence."""
    try:
        return await answer
    except FallowError as error:
        raise Refused(503, "failed", str(error)) from None


async def asked(question: Callable[[], T]) -> T:
    """Return the answer to a question that reads the disk, in a thread; what cannot be read is a 503."""
    return await answered(asyncio.to_thread(question))
