"""`/healthz` and `/metrics`: for programs that watch the daemon."""

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallow.core.board import Board
from fallow.interfaces.web.routes import Routes


def add_health(pages: Routes, ails: Callable[[], str | None]) -> None:
    """Add the route that tells whether the daemon is well."""

    @pages.get("/healthz")
    async def health(_: Request) -> Response:
        because = ails()
        return JSONResponse({"ok": because is None, "because": because}, 200 if because is None else 503)


def add_metrics(pages: Routes, board: Callable[[], Board | None], watchers: Callable[[], int]) -> None:
    """Add the route for Prometheus, whose library is loaded for the first who asks."""

    def exposed(accept: str) -> tuple[bytes, str]:
        from fallow.interfaces.render.metrics import exposed

        return exposed(board(), watchers(), accept)

    @pages.get("/metrics")
    async def metrics(request: Request) -> Response:
        body, kind = await asyncio.to_thread(exposed, request.headers.get("accept", ""))
        return Response(body, media_type=kind)
