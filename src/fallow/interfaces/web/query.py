"""Read the keys of a query, and the bodies, of `/api/v1`. What does not fit is refused by the name of its key."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from starlette.requests import Request

from fallow.core.units import is_number, shortened
from fallow.interfaces.web.caller import Refused

_LONGEST_TEXT = 300
Kind = type | tuple[type, ...]


def only(request: Request, *names: str) -> None:
    """Raise Refused for a key that the route does not know: it would be ignored."""
    for key in request.query_params:
        if key not in names:
            known = ", ".join(names) or "none"
            raise _refused(f"{shortened(key)!r} is no key here; known are: {known}")


def number(request: Request, name: str, default: float, *, least: float, most: float) -> float:
    """Return a number."""
    raw = request.query_params.get(name)
    if raw is None:
        return default
    try:
        found = float(raw)
    except ValueError:
        found = float("nan")
    if not isfinite(found) or not least <= found <= most:
        raise _refused(f"{name} is a number from {least:.12g} to {most:.12g}")
    return found


def whole(request: Request, name: str, default: int | None, *, least: int, most: int) -> int:
    """Return a whole number; without a default it must be given."""
    raw = request.query_params.get(name)
    return default if raw is None and default is not None else whole_in(name, raw or "", least=least, most=most)


def whole_in(name: str, raw: str, *, least: int, most: int) -> int:
    """Return the whole number that a text is."""
    if not is_number(raw) or not least <= int(raw) <= most:
        raise _refused(f"{name} is a whole number from {least} to {most}")
    return int(raw)


def text(request: Request, name: str, *, longest: int) -> str | None:
    """Return a text; None if it is not given."""
    found = request.query_params.get(name)
    if found is not None and not 0 < len(found) <= longest:
        raise _refused(f"{name} is a text of 1 to {longest} characters")
    return found


def word(request: Request, name: str, default: str, words: Sequence[str]) -> str:
    """Return one of some words."""
    found = request.query_params.get(name, default)
    if found not in words:
        raise _refused(f"{name} is one of {', '.join(words)}")
    return found


async def body_of(request: Request, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the JSON object that a request brings, whose fields are of these kinds; it may have no others."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):  # no JSON, of no encoding, with a number of too many digits, or too deep
        found = None
    if not isinstance(found, dict) or not found.keys() <= kinds.keys():
        raise _refused(f"the body is a JSON object, with nothing but {', '.join(kinds)}")
    for name, sent in found.items():
        if not isinstance(sent, kinds[name]) or isinstance(sent, bool):
            raise _refused(f"{name} in the body is of another kind")
        if isinstance(sent, str) and len(sent) > _LONGEST_TEXT:
            raise _refused(f"{name} in the body has at most {_LONGEST_TEXT} characters")
    return found


def _refused(sentence: str) -> Refused:
    return Refused(422, "usage", sentence)
