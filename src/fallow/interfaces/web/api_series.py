"""`/api/v1/series`: what the plots show, for programs."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fallow.engine.daemon.sources import Sources
from fallow.engine.history.series import READINGS, SPANS, Step
from fallow.interfaces.render.as_json import iso_time
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.api_history import answered
from fallow.interfaces.web.caller import Refused, caller_of
from fallow.interfaces.web.plots import PlotReads, Plotted
from fallow.interfaces.web.query import only, text, word
from fallow.interfaces.web.routes import Routes
from fallow.interfaces.web.subject_finder import SubjectFinder

_LONGEST_SUBJECT = 210


def add_series(api: Routes, sources: Sources, plots: PlotReads, finder: SubjectFinder) -> None:
    """Add the route for what is plotted."""
    finders = {"gpu": finder.gpu, "job": finder.job, "user": finder.user}

    @api.get("/api/v1/series")
    async def series(request: Request) -> Response:
        only(request, "span", "subject")
        span = word(request, "span", "24h", tuple(SPANS))
        subject = text(request, "subject", longest=_LONGEST_SUBJECT)
        caller, board = caller_of(request), sources.board()
        if subject is not None:
            kind, _, name = subject.partition(":")
            if kind not in finders or not name:
                raise Refused(422, "usage", "subject is gpu:UUID, job:PID-BIRTH or user:NAME")
            found = await finders[kind](name, caller)
            if found is None:
                raise Refused(404, "usage", "there is no such GPU, job or user")
            what = found.plotted
        else:
            gpus = () if board is None else board.status.gpus
            what = Plotted(tuple(one.uuid for one in gpus if isinstance(one.uuid, str)))
        steps = await answered(plots.steps(what, SPANS[span]))
        currency = None if board is None or not board.prices.given else board.prices.currency
        return Json(
            {"span": span, "step_s": SPANS[span].step_s, "currency": currency, "steps": [_step(one) for one in steps]}
        )


def _step(one: Step) -> dict[str, Any]:
    spent = {f"{activity.value}_s": ms / 1000 for activity, ms in one.spent_ms.items()}
    return {
        "begin": iso_time(one.begin_ms / 1000),
        "end": iso_time(one.end_ms / 1000),
        "gpus": one.gpus,
        **{name: getattr(one, name) for name in READINGS},
        "spent": spent,
        "cost": one.cost,
        "users": list(one.users),
    }
