"""Read the JSON that a request brings."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from fallow.interfaces.web.caller import Refused

NOTHING = object()
"""What a request without a body brings."""


async def json_in(request: Request) -> Any:  # noqa: ANN401  whatever is sent
    """Return what was sent: bytes if it does not call itself JSON. Raise Refused for broken JSON."""
    body = await request.body()
    if not body:
        return NOTHING
    if not _is_json(request.headers.get("content-type", "")):
        return body
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        raise Refused(422, "usage", f"body.{error.pos}: JSON decode error") from None
    except (ValueError, RecursionError):  # of no encoding, a number of too many digits, or too deep
        raise HTTPException(400, "There was an error parsing the body") from None


def _is_json(kind: str) -> bool:
    main, _, rest = kind.partition(";")[0].strip().lower().partition("/")
    return main == "application" and (rest == "json" or rest.endswith("+json"))
