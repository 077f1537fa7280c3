"""The answer of `/api/v1/series`, as OpenAPI describes it."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from fallow.interfaces.web.models import Time, Versioned


class SeriesStep(BaseModel):
    """What GPUs did in one step: means of what was read; null where nothing was."""

    begin: Time
    end: Time
    gpus: Annotated[int, Field(description="How many GPUs were seen in it.")]
    utilization: float | None
    memory_bytes: float | None
    power_w: float | None
    temperature_c: float | None
    spent: Annotated[dict[str, float], Field(description="Seconds by activity, `busy_s` and so on.")]
    cost: Annotated[float | None, Field(description="What the idle and stuck time cost; null without a price.")]
    users: Annotated[list[str], Field(description="Who held the GPUs, the longest first.")]


class Series(Versioned):
    """What GPUs did in equal steps."""

    span: Literal["1h", "24h", "7d", "30d"]
    step_s: int
    currency: str | None
    steps: list[SeriesStep]
