"""The bodies that `/api/v1` takes."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fallow.engine.daemon.sources import LONGEST_PROTECTION_S
from fallow.interfaces.web.subjects import SUBJECT

_STRICT = ConfigDict(strict=True, extra="forbid", defer_build=True)  # made for the first body that comes


class Wish(BaseModel):
    """Which parked jobs to wake."""

    model_config = _STRICT

    subject: Annotated[str, Field(min_length=1, max_length=300, examples=["mine", "pid:1234", "3"])]


class NewProtection(BaseModel):
    """What to leave alone, and for how long."""

    model_config = _STRICT

    subject: Annotated[str, Field(pattern=SUBJECT, examples=["all", "gpu:3", "user:ada"])]
    for_s: Annotated[float, Field(gt=0, le=LONGEST_PROTECTION_S, allow_inf_nan=False, examples=[1800])]
    why: Annotated[str, Field(max_length=200, examples=["debugging"])] = ""
