"""The report as a file to keep: what `fallow report` writes, as the visitor may see it."""

from collections.abc import Callable
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from fallow.core.errors import WrongUsage
from fallow.core.units import span_s
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.report import Report
from fallow.interfaces.web.api_history import WEEK_S, asked
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.routes import Routes
from fallow.policies.cost import By

_HOUR = "hour"
_LONGEST_S = 3660 * 86400.0


def add_downloads(pages: Routes, sources: Sources) -> None:
    """Add the routes of the files."""

    @pages.get("/report.csv")
    async def as_csv(request: Request) -> Response:
        from fallow.interfaces.render.report_text import as_csv as written
        from fallow.interfaces.render.report_text import hours_as_csv

        by_hour = request.query_params.get("by") == _HOUR
        kind = "text/csv; charset=utf-8"
        return await answer(request, "csv", kind, (lambda report, _: hours_as_csv(report)) if by_hour else written)

    @pages.get("/report.html")
    async def as_html(request: Request) -> Response:
        from fallow.interfaces.render.report_html import as_html as written

        return await answer(request, "html", "text/html; charset=utf-8", written)

    async def answer(request: Request, ending: str, kind: str, written: Callable[[Report, By], str]) -> Response:
        since_s, by = _wanted(request, hours=ending == "csv")
        viewer = caller_of(request).viewer
        text = await asked(lambda: written(sources.report(since_s, viewer), by or By.GPU))
        day = f"{datetime.fromtimestamp(sources.clock.wall_s(), UTC):%Y-%m-%d}"
        headers = {"content-disposition": f'attachment; filename="fallow-{by or _HOUR}-{day}.{ending}"'}
        return Response(text, media_type=kind, headers=headers)


def _wanted(request: Request, *, hours: bool) -> tuple[float, By | None]:
    """Return since when, and what the hours are grouped by (None: the hours of the week, if there are such).

    Raise Refused for what makes no sense.
    """
    for key in request.query_params:
        if key not in ("since", "by"):
            raise Refused(422, "usage", "known are since, as since=7d, and by, as by=user")
    try:
        since_s = span_s(request.query_params["since"]) if "since" in request.query_params else WEEK_S
        word = request.query_params.get("by", By.GPU.value)
        by = None if hours and word == _HOUR else By(word)
    except WrongUsage as error:
        raise Refused(422, "usage", str(error)) from None
    except ValueError:
        raise Refused(422, "usage", f"by is one of {', '.join([*By, *[_HOUR] * hours])}") from None
    if not 0 < since_s <= _LONGEST_S:
        raise Refused(422, "usage", "since is a time between now and ten years ago, as since=7d")
    return since_s, by
