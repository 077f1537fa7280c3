"""Render what only the API returns as JSON: values of core, events, intervals; and answers with the version."""

import json
from math import isinf
from typing import Any

from starlette.responses import Response

from fallow.core.activity import Activity
from fallow.core.api import VERSION
from fallow.core.findings import Event
from fallow.core.interval import Interval
from fallow.core.reasons import Reason, WithReason
from fallow.core.value import fields
from fallow.interfaces.render.as_json import iso_time, reason_facts


class Json(Response):
    """An answer in JSON: in ASCII, because text of other programs may be invalid; and always with the version."""

    media_type = "application/json"

    def render(self, content: dict[str, Any]) -> bytes:
        """Return the bytes of the body."""
        return json.dumps({"version": VERSION, **content}, separators=(",", ":"), allow_nan=False).encode()


def problem(code: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that says why a request failed: a reason for programs, and a sentence."""
    return Json({"reason": reason, "detail": detail}, code, headers)


def plain(what: Any) -> Any:  # noqa: ANN401  any value of core
    """Return a value as a dictionary of its fields; infinity becomes null."""
    if isinstance(what, Activity):
        return what.value
    if isinstance(what, float) and isinf(what):
        return None
    if isinstance(what, tuple | list):
        return [plain(each) for each in what]
    if what is None or isinstance(what, bool | int | float | str):
        return what
    if isinstance(what, Reason):
        return what.kind
    facts = {name: plain(getattr(what, name)) for name in fields(type(what))}
    return facts | reason_facts(what) if isinstance(what, WithReason) else facts


def event(each: Event) -> dict[str, Any]:
    """Return one line of the journal."""
    facts: dict[str, Any] = plain(each)
    del facts["keys"]  # who asks has named one
    return {"at": iso_time(facts.pop("wall_s"))} | facts


def interval(each: Interval) -> dict[str, Any]:
    """Return one interval of a GPU's history."""
    return {
        "begin": iso_time(each.begin_ms / 1000),
        "end": iso_time(each.end_ms / 1000),
        "activity": each.activity.value,
        "users": sorted({party.user for party in each.parties}),
    }
