"""`/api/v1/recent`: what each GPU did in the last minutes, for the line that `fallow top` draws of it."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from fallow.core.activity import Activity
from fallow.engine.daemon.recent import STEP_S
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.web.api_facts import Json
from fallow.interfaces.web.models import Versioned


class RecentGpu(BaseModel):
    """The last minutes of one GPU."""

    gpu: str
    steps: Annotated[
        list[tuple[int, float | None, Activity]],
        Field(
            description="When each step began (seconds since the epoch), the mean utilization (0 to 1), the activity."
        ),
    ]


class Recent(Versioned):
    """What each GPU did in the last five minutes, in steps; steps in which nobody looked are left out."""

    step_s: int
    gpus: list[RecentGpu]


def add_recent(api: APIRouter, sources: Sources) -> None:
    """Add the route for the last minutes."""

    @api.get("/recent", response_model=Recent, summary="What each GPU did in the last five minutes")
    async def recent() -> Response:
        found: dict[str, list[tuple[int, float | None, str]]] = {}
        for step in sources.publisher.recent.steps:
            for label, gpu in step.gpus.items():
                load = None if gpu.load is None else round(gpu.load, 3)
                found.setdefault(label, []).append((step.begin_wall_s, load, gpu.activity.value))
        return Json({"step_s": STEP_S, "gpus": [{"gpu": label, "steps": steps} for label, steps in found.items()]})
