"""The schemas of `/api/v1/fleet` and `/api/v1/fleet/report`, for OpenAPI."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from fallow.core.fleet import FleetBy
from fallow.interfaces.web.models import Time, Versioned
from fallow.interfaces.web.report_models import ReportLine


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


class FleetLine(ReportLine):
    """The hours of one host, or of one GPU, user, job or day over all hosts."""

    hosts: list[str]


class FleetReport(Versioned):
    """The hours of all hosts of the fleet, added up."""

    since: Time
    until: Time
    by: FleetBy
    currency: str | None
    hosts: list[ReportHost]
    lines: list[FleetLine]
    total: ReportLine
