"""`/healthz` and `/metrics`: for programs that watch the daemon."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallow.core.board import Board
from fallow.interfaces.web.made_once import MadeOnce
from fallow.interfaces.web.page_routes import PageRoutes


def add_health(pages: PageRoutes, ails: Callable[[], str | None]) -> None:
    """Add the route that tells whether the daemon is well."""

    @pages.get("/healthz")
    async def health(_: Request) -> Response:
        because = ails()
        return JSONResponse({"ok": because is None, "because": because}, 200 if because is None else 503)


def add_metrics(pages: PageRoutes, board: Callable[[], Board | None], watchers: Callable[[], int]) -> None:
    """Add the route for Prometheus, whose library is loaded for the first who asks."""

    def make() -> Callable[[str], tuple[bytes, str]]:
        from fallow.interfaces.render.metrics import Metrics

        return Metrics(board, watchers).exposed

    made = MadeOnce(make)

    @pages.get("/metrics")
    async def metrics(request: Request) -> Response:
        expose = await made.get()
        body, kind = expose(request.headers.get("accept", ""))
        return Response(body, media_type=kind)
