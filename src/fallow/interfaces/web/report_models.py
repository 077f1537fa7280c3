"""The schemas of the API's reports, for OpenAPI; the values are those of `fallow report --format json`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fallow.interfaces.web.models import Activity, Time, Versioned, Why


class ReportedGpu(BaseModel):
    """A GPU of which something was witnessed."""

    gpu: str
    uuid: str
    name: str
    host: str
    simulated: bool
    price_per_hour: float | None


class ReportLine(BaseModel):
    """The hours of one GPU, user, job or day, in seconds."""

    model_config = ConfigDict(extra="allow")

    observed_s: float
    free_s: float
    filled_s: float
    busy_s: float
    idle_s: float
    stuck_s: float
    unknown_s: float
    energy_j: Annotated[float | None, Field(description="In the seconds of `metered_s`, by the driver's counter.")]
    metered_s: float
    cost: float | None
    unknown: Why


class Made(BaseModel):
    """What made a report: which fallow, where, when, and from what."""

    fallow: str
    host: str
    at: Time
    source: str
    resolution_s: Annotated[float, Field(description="Of gaps and hours of the week.")]


class Gap(BaseModel):
    """A time in which nobody watched."""

    since: Time
    until: Time


class HourOfWeek(BaseModel):
    """What all GPUs did in one hour of the week, in seconds; 1 is Monday."""

    weekday: int
    hour: int
    free_s: float
    filled_s: float
    busy_s: float
    idle_s: float
    stuck_s: float
    unknown_s: float


class Report(Versioned):
    """What `fallow report --format json` prints."""

    made: Made
    since: Time
    until: Time
    observed_share: Annotated[float, Field(description="Which part of the time of its GPUs was watched, 0..1.")]
    gaps: list[Gap]
    hours: list[HourOfWeek]
    by: Literal["gpu", "user", "job", "day", "week"]
    currency: str | None
    gpus: list[ReportedGpu]
    lines: list[ReportLine]
    total: ReportLine


class Quarters(Versioned):
    """What all GPUs together did in each quarter of an hour."""

    quarters: Annotated[
        list[list[int | Activity]],
        Field(description="When it begins (ms since the epoch), what, for how many ms."),
    ]
