"""The app: pages, API and metrics, the same on the page and on the socket."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fallow.core.board import Board
from fallow.core.gpu_status import GpuStatus
from fallow.core.units import shortened
from fallow.core.unknown import Unknown
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.web.api import add_changes, add_now
from fallow.interfaces.web.api_cluster import add_cluster
from fallow.interfaces.web.api_facts import problem
from fallow.interfaces.web.api_history import add_past, add_raw_history
from fallow.interfaces.web.api_recent import add_recent
from fallow.interfaces.web.api_series import add_series
from fallow.interfaces.web.cached_reads import CachedReads
from fallow.interfaces.web.caller import Refused, who_asks
from fallow.interfaces.web.downloads import add_downloads
from fallow.interfaces.web.event_streams import Watchers
from fallow.interfaces.web.page import Files, add_pages
from fallow.interfaces.web.page_parts import FIGURES_EVERY_S, Renderer
from fallow.interfaces.web.plots import PlotReads
from fallow.interfaces.web.routes import Routes
from fallow.interfaces.web.signs_of_life import add_health, add_metrics
from fallow.interfaces.web.subject_finder import SubjectFinder
from fallow.interfaces.web.subject_pages import add_subject_pages
from fallow.interfaces.web.subject_reads import SubjectReads

_TICKS_TO_LIVE = 5
_LEAST_TO_LIVE_S = 5.0


class Pulse:
    """Records when the policy loop last finished a tick, by the monotonic clock."""

    def __init__(self, sources: Sources) -> None:
        self._clock = sources.clock
        self._machine = sources.machine
        self._beat_s: float | None = None

    def beat(self) -> None:
        """Record a tick."""
        self._beat_s = self._clock.monotonic_s()

    @property
    def ails(self) -> str | None:
        """Return what is wrong; None if nothing is."""
        if self._beat_s is None:
            return "no GPU has been looked at yet"
        silent_s = self._clock.monotonic_s() - self._beat_s
        patience_s = max(_LEAST_TO_LIVE_S, _TICKS_TO_LIVE * self._machine().every)
        return f"nobody has looked at the GPUs for {silent_s:.0f} s" if silent_s > patience_s else None


class ChangeFilter:
    """Decides which changes are pushed at once: holders and activities. Readings alone wait some seconds."""

    def __init__(self, sources: Sources) -> None:
        self._clock = sources.clock
        self._last: object = None
        self._told_s = 0.0

    def should_push(self, board: Board) -> bool:
        """Return whether to push this board to the watchers now."""
        cards = tuple((gpu.activity, _pids(gpu), gpu.claim, gpu.filler) for gpu in board.status.gpus)
        guards = tuple((view.name, view.phase) for view in board.guards)  # their reasons count seconds
        story = (cards, tuple((view.phase, view.yields) for view in board.fillers), guards, board.protections)
        now_s = self._clock.monotonic_s()
        if story == self._last and now_s - self._told_s < FIGURES_EVERY_S:
            return False
        self._last, self._told_s = story, now_s
        return True


def _pids(gpu: GpuStatus) -> tuple[int, ...] | Unknown:
    return gpu.holders if isinstance(gpu.holders, Unknown) else tuple(holder.pid for holder in gpu.holders)


def make_app(sources: Sources) -> Starlette:
    """Return the app. The policy loop's thread only notifies it of each tick; all else happens in its own thread."""
    plots = PlotReads(sources)
    renderer = Renderer(sources, CachedReads(sources), plots)
    subjects = SubjectReads(sources)
    finder = SubjectFinder(sources, subjects)
    static = Files()
    watchers = Watchers(renderer.parts, lambda: static.edition, sources.pause_s)
    pulse, worth = Pulse(sources), ChangeFilter(sources)

    def tick(board: Board) -> None:
        pulse.beat()
        if len(watchers) and worth.should_push(board):
            watchers.nudge()

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        watchers.open()
        if sources.board() is not None:
            pulse.beat()
        sources.publisher.when_published = tick
        yield
        sources.publisher.when_published = lambda _: None
        watchers.close()

    routes = Routes()
    add_now(routes, sources)
    add_cluster(routes, sources)
    add_past(routes, sources)
    add_raw_history(routes, sources)
    add_series(routes, sources, plots, finder)
    add_recent(routes, sources)
    add_changes(routes, sources)
    add_pages(routes, sources, renderer, watchers, static)
    add_subject_pages(routes, sources, renderer, plots, (subjects, finder), lambda: static.edition)
    add_downloads(routes, sources)
    add_health(routes, lambda: pulse.ails)
    add_metrics(routes, sources.board, lambda: len(watchers))
    app = Starlette(routes=routes.routes, lifespan=life)
    app.state.watchers, app.state.plots = watchers, plots
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_problem(renderer, lambda: static.edition))
    app.add_exception_handler(405, _names_the_methods(routes.routes))
    return app


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.code, error.reason, error.detail, error.headers)


def _http_problem(
    renderer: Renderer, edition: Callable[[], str]
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return a handler of the framework's own errors, such as an unknown path: a page for a browser, else JSON."""

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        wanted = request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip()
        if error.status_code != HTTPStatus.NOT_FOUND or wanted != "text/html" or request.url.path.startswith("/api/"):
            missing = error.status_code == HTTPStatus.NOT_FOUND
            detail = f"there is nothing at {shortened(request.url.path)}" if missing else error.detail
            return problem(error.status_code, "http", detail, dict(error.headers or {}))
        sentence = f"There is no page {shortened(request.url.path)} here."
        caller = getattr(request.state, "caller", None)
        asks = {} if caller is None else who_asks(caller)
        return HTMLResponse(renderer.missing(sentence, edition=edition(), **asks), HTTPStatus.NOT_FOUND)

    return answer


def _names_the_methods(routes: Sequence[Route]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return a handler that names all methods of a path where one is unknown; the framework names one route's."""

    async def answer(request: Request, _: Exception) -> Response:
        fitting = {
            method for route in routes if route.path_regex.match(request.url.path) for method in route.methods or ()
        }
        return problem(405, "http", "that cannot be done here", {"allow": ", ".join(sorted(fitting))})

    return answer
