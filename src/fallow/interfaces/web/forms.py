"""What a form of the page sends."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request

from fallow.interfaces.web.caller import Refused

_MOST_FIELDS = 10


async def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that was sent; raise Refused for what is none."""
    body = (await request.body()).decode(errors="replace")
    try:
        fields = parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Refused(400, "usage", "this is no form of the page") from None
    return {name: values[0] for name, values in fields.items()}
