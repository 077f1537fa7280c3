"""The schema of `/api/v1/recent`, for OpenAPI."""

from typing import Annotated

from pydantic import BaseModel, Field

from fallow.core.activity import Activity
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
