"""`/api/v1/recent`: what each GPU did in the last minutes, for the line that `fallow top` draws of it."""

from starlette.requests import Request
from starlette.responses import Response

from fallow.engine.daemon.recent import STEP_S
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.query import only
from fallow.interfaces.web.routes import Routes


def add_recent(api: Routes, sources: Sources) -> None:
    """Add the route for the last minutes."""

    @api.get("/api/v1/recent")
    async def recent(request: Request) -> Response:
        only(request)
        found: dict[str, list[tuple[int, float | None, str]]] = {}
        for step in sources.publisher.recent.steps:
            for label, gpu in step.gpus.items():
                load = None if gpu.load is None else round(gpu.load, 3)
                found.setdefault(label, []).append((step.begin_wall_s, load, gpu.activity.value))
        return Json({"step_s": STEP_S, "gpus": [{"gpu": label, "steps": steps} for label, steps in found.items()]})
