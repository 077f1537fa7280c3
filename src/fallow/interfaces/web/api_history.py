"""`/api/v1` for the past: events of the journal, and history."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.errors import FallowError
from fallow.core.gpu import labels_of
from fallow.core.units import is_number
from fallow.core.visibility import interval_seen_by
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.reader import HistoryReader
from fallow.interfaces.render.as_json import iso_time
from fallow.interfaces.render.report_text import facts_of
from fallow.interfaces.web import api_facts
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.query import number, only, text, whole, word
from fallow.interfaces.web.routes import Routes
from fallow.policies.cost import By

WEEK_S = 7 * 86400.0
_LONGEST_REPORT_S = 3660 * 86400.0
_LONGEST_PICTURE_MS = 32 * 86_400_000
_MOST_EDGES = 64
_LATEST_MS = 2**53
_LONGEST_UUID = 80
_LONGEST_EDGES = 1024
_SHORTEST_REPORT_S = 0.001

T = TypeVar("T")


def add_past(api: Routes, sources: Sources) -> None:
    """Add the routes for the journal, and for reports from history."""

    @api.get("/api/v1/events")
    async def events(request: Request) -> Response:
        only(request, "limit", "key")
        limit = whole(request, "limit", 50, least=1, most=500)
        key = text(request, "key", longest=200)
        found = await asked(lambda: sources.events(key, limit))
        return Json({"events": [api_facts.event(each) for each in found]})

    @api.get("/api/v1/report")
    async def report(request: Request) -> Response:
        only(request, "since_s", "by", "until_s")
        since_s, until_s = _span_of(request)
        by = By(word(request, "by", By.GPU.value, [each.value for each in By]))
        viewer = caller_of(request).viewer
        return Json(await asked(lambda: facts_of(sources.report(since_s, viewer, until_s), by)))

    @api.get("/api/v1/history")
    async def history(request: Request) -> Response:
        only(request, "since_s", "gpu")
        since_s = number(request, "since_s", 86400.0, least=_SHORTEST_REPORT_S, most=WEEK_S)
        gpu = text(request, "gpu", longest=_LONGEST_UUID)
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


def add_raw_history(api: Routes, sources: Sources) -> None:
    """Add the routes for history as `fallow report` needs it, to add it up with the caller's prices and days."""

    def read(question: Callable[[HistoryReader], Sequence[T]]) -> Sequence[T]:
        past = sources.past()
        try:
            return question(past)
        finally:
            past.close()

    @api.get("/api/v1/history/gpus")
    async def gpus(request: Request) -> Response:
        only(request)
        found = await asked(lambda: read(lambda past: list(past.cards().values())))
        return Json({"gpus": api_facts.plain(found)})

    @api.get("/api/v1/history/tallies")
    async def tallies(request: Request) -> Response:
        only(request, "edges")
        edges = (text(request, "edges", longest=_LONGEST_EDGES) or "").split(",")
        if not 1 < len(edges) <= _MOST_EDGES or not all(map(is_number, edges)) or max(map(int, edges)) > _LATEST_MS:
            raise Refused(422, "usage", f"edges is 2 to {_MOST_EDGES} moments in ms since the epoch, as edges=0,1000")
        moments = sorted({int(each) for each in edges})
        viewer = sources.rights_of(caller_of(request).viewer)
        found = await asked(lambda: read(lambda past: past.tallies(moments)))
        return Json({"tallies": api_facts.plain([interval_seen_by(each, viewer) for each in found])})

    @api.get("/api/v1/history/quarters")
    async def quarters(request: Request) -> Response:
        only(request, "since_ms", "until_ms")
        begin_ms, until_ms = _picture_of(request)
        found = await asked(lambda: read(lambda past: past.quarters(begin_ms, until_ms)))
        return Json({"quarters": api_facts.plain(found)})

    @api.get("/api/v1/history/activities")
    async def activities(request: Request) -> Response:
        only(request, "gpu", "since_ms", "until_ms", "finest_ms")
        gpu = text(request, "gpu", longest=_LONGEST_UUID)
        if gpu is None:
            raise Refused(422, "usage", "gpu is the UUID of a GPU, and is needed")
        begin_ms, until_ms = _picture_of(request)
        finest_ms = whole(request, "finest_ms", 0, least=0, most=_LATEST_MS)
        found = await asked(lambda: read(lambda past: past.colours(gpu, begin_ms, until_ms, finest_ms)))
        return Json({"activities": api_facts.plain(found)})


def _span_of(request: Request) -> tuple[float, float]:
    """Return how many seconds before now a report begins and ends."""
    since_s = number(request, "since_s", WEEK_S, least=_SHORTEST_REPORT_S, most=_LONGEST_REPORT_S)
    return since_s, min(since_s, number(request, "until_s", 0.0, least=0, most=_LONGEST_REPORT_S))


def _picture_of(request: Request) -> tuple[int, int]:
    """Return from when until when a picture is, in ms since the epoch."""
    since_ms = whole(request, "since_ms", None, least=0, most=_LATEST_MS)
    until_ms = whole(request, "until_ms", None, least=0, most=_LATEST_MS)
    return max(since_ms, until_ms - _LONGEST_PICTURE_MS), until_ms


async def answered(answer: Awaitable[T]) -> T:
    """Return an answer that is read from the disk; what cannot be read is a 503 with its sentence."""
    try:
        return await answer
    except FallowError as error:
        raise Refused(503, "failed", str(error)) from None


async def asked(question: Callable[[], T]) -> T:
    """Return the answer to a question that reads the disk, in a thread; what cannot be read is a 503."""
    return await answered(asyncio.to_thread(question))
