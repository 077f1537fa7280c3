"""The pages about one GPU, job or user. What nobody has heard of is 404, with a sentence."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fallow.core.board import Board, Counting
from fallow.core.gpu import labels_of
from fallow.core.interval import Interval
from fallow.core.protections import Affected, AffectedProcess, OneUser, Protection, covers
from fallow.core.units import shortened
from fallow.core.value import replace
from fallow.core.version import __version__
from fallow.core.visibility import Viewer
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.report import Report
from fallow.engine.jobs.protections import affected_by, uuids_with_cards
from fallow.engine.machine.local_zone import LocalZone
from fallow.interfaces.web import dashboard, subject_views, view_models
from fallow.interfaces.web.caller import Caller, caller_of, who_asks
from fallow.interfaces.web.journal_rows import journal_rows
from fallow.interfaces.web.page_parts import DURATIONS, Renderer
from fallow.interfaces.web.plots import PlotReads
from fallow.interfaces.web.routes import Routes
from fallow.interfaces.web.subject_finder import Found, SubjectFinder
from fallow.interfaces.web.subject_reads import WEEK, Reports, SubjectReads
from fallow.interfaces.web.view_models import View

_LONGEST_ASKED = 300
_MISSING = {
    "gpu": "There is no GPU {}: no GPU of this machine has that UUID or index, nor does history know it.",
    "job": "There is no job {}: no such process holds a GPU, nor does the journal tell of it.",
    "user": "There is no user {} here: they hold no GPU, and held none in the last 30 days.",
}
_PLOTS = {"gpu": "Over time", "user": "Their GPUs over time"}
_OTHER_PLOTS = "Its GPUs over time"


def add_subject_pages(
    pages: Routes,
    sources: Sources,
    renderer: Renderer,
    plots: PlotReads,
    subjects: tuple[SubjectReads, SubjectFinder],
    edition: Callable[[], str],
) -> None:
    """Add the routes of these pages."""
    reads, finder = subjects

    async def answer(
        request: Request, kind: str, name: str, find: Callable[[str, Caller], Awaitable[Found | None]]
    ) -> Response:
        caller, board = caller_of(request), sources.board()
        found = None if len(name) > _LONGEST_ASKED else await find(name, caller)
        about = {"edition": edition(), **who_asks(caller)}
        if found is None:
            return HTMLResponse(renderer.missing(_MISSING[kind].format(shortened(name)), **about), 404)
        host = "fallow" if board is None else shortened(board.status.host)
        span = request.query_params.get("span", "")
        told = await reads.events(found.keys)
        reports = await reads.reports()
        rows = told if isinstance(told, str) else journal_rows(told, sources.clock.wall_s(), LocalZone())
        viewer = sources.rights_of(caller.viewer)
        hours, tables = await asyncio.to_thread(_added_up, found, reports, viewer, board)
        values = {
            "found": found,
            "host": host,
            "version": __version__,
            "card": None if found.gpu is None or board is None else _card(found, board),
            "held": subject_views.rows_of(found.held),
            "stops": [] if board is None else dashboard.stops(_rules_about(board, found)),
            "protections": [] if board is None else _protections(board, found, sources.clock.wall_s()),
            "plots": await plots.view(found.plotted, span, found.address, _PLOTS.get(kind, _OTHER_PLOTS)),
            "rows": rows,
            "gpu_labels": {} if board is None else labels_of(board.status.gpus),
            "durations": DURATIONS,
            "hours": hours,
            "tables": tables,
        }
        return HTMLResponse(renderer.render(f"{kind}.html", **values, **about))

    @pages.get("/gpus/{name}")
    async def gpu(request: Request) -> Response:
        return await answer(request, "gpu", request.path_params["name"], finder.gpu)

    @pages.get("/jobs/{name}")
    async def job(request: Request) -> Response:
        return await answer(request, "job", request.path_params["name"], finder.job)

    @pages.get("/users/{name:path}")
    async def user(request: Request) -> Response:
        return await answer(request, "user", request.path_params["name"], finder.user)


def _card(found: Found, board: Board) -> View:
    """Return the GPU as the main page shows it."""
    assert found.gpu is not None
    status = replace(board.status, gpus=(found.gpu,))
    return view_models.cards(replace(board, status=status))[0]


def _rules_about(board: Board, found: Found) -> Board:
    """Return the board with only what the rules count of this subject."""

    def is_about(each: Counting) -> bool:
        return found.uuid in each.uuids if found.kind == "gpu" else not set(found.keys).isdisjoint(each.processes)

    return replace(board, counting=tuple(each for each in board.counting if is_about(each)))


def _protections(board: Board, found: Found, now_s: float) -> list[View]:
    """Return the protections of the subject: of its processes, of its user, and of the GPUs that it is on."""
    touched = _affected(found)
    fitting = [each for each in board.protections if covers(each, touched) or _is_of_user(each, found)]
    return view_models.protections(fitting, board, now_s)


def _affected(found: Found) -> Affected:
    if found.kind == "gpu":
        return Affected(frozenset((found.uuid or "",))) if found.gpu is None else affected_by([found.gpu])
    holders = [one.holder for one in found.held]
    processes = tuple(AffectedProcess(each.pid, each.birth, each.user, each.command) for each in holders)
    return Affected(uuids_with_cards([one.gpu for one in found.held]), processes)


def _is_of_user(protection: Protection, found: Found) -> bool:
    return found.kind == "user" and protection.target == OneUser(found.title)


def _added_up(
    found: Found, reports: Reports | str, viewer: Viewer, board: Board | None
) -> tuple[View | str, tuple[View, ...]]:
    """Return the hours and whose they were; a sentence if they cannot be read."""
    if isinstance(reports, str):
        return reports, ()
    return _hours(found, reports), _tables(found, reports, viewer, board)


def _hours(found: Found, reports: Reports) -> View:
    return subject_views.hours_table([(name, report, _time(found, report)) for name, report in reports.items()])


def _time(found: Found, report: Report) -> list[Interval]:
    if found.plotted.uuids == ():
        return []
    return subject_views.narrowed(report, found.uuid, _matches(found))


def _matches(found: Found) -> Callable[..., bool] | None:
    return found.plotted.matches if found.plotted.is_of_somebody else None


def _tables(found: Found, reports: Reports, viewer: Viewer, board: Board | None) -> tuple[View, ...]:
    week = reports[WEEK]
    time = _time(found, week)
    return tuple(subject_views.lines_by(by, week, time, viewer, board) for by in found.tables)
