"""The schemas of `/api/v1/fleet` and `/api/v1/fleet/report`, for OpenAPI."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from fallow.interfaces.web.models import Time, Versioned, Why


class FleetHost(BaseModel):
    """One host of the fleet."""

    name: str
    here: Annotated[bool, Field(description="Whether it is the machine of this daemon.")]
    since: Annotated[Time, Field(description="Since when it answers, or is silent.")]
    status: Annotated[
        dict[str, Any] | None, Field(description="What its /api/v1/status tells; null while it is silent.")
    ]
    error: Annotated[str | None, Field(description="Why it is silent, for people.")]
    reason: str | None
    facts: dict[str, Any]


class Fleet(Versioned):
    """This machine, and the hosts that the config names under [fleet]."""

    hosts: list[FleetHost]


class ReportHost(BaseModel):
    """Whether one host has told its report."""

    name: str
    error: str | None
    reason: str | None


class Sum(BaseModel):
    """Seconds of each activity, and what the idle ones cost."""

    observed_s: float
    free_s: float
    filled_s: float
    busy_s: float
    idle_s: float
    stuck_s: float
    unknown_s: float
    cost: float | None
    unknown: Why


class SumOf(Sum):
    """The sum of one user over hosts, or of one host."""

    user: str | None = None
    host: str | None = None
    hosts: list[str]


class FleetReport(Versioned):
    """The hours of all hosts of the fleet, added up by user or by host."""

    since: Time
    until: Time
    by: Literal["user", "host"]
    currency: str | None
    hosts: list[ReportHost]
    lines: list[SumOf]
    total: Sum
