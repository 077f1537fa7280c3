"""Tell a person that their form was done: the address they go back to names the protection, and the page says it.

Who changes the address makes the page say at most what is true anyway: the sentence is made of what is there now.
"""

from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import Request

from fallow.core.board import Board
from fallow.core.units import is_number
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.web.view_models import protections

PLACED, RELEASED = "placed", "released"
_LONGEST_NUMBER = 10


def with_note(address: str, note: str, number: int) -> str:
    """Return the address of a page of ours, with a note of what was done, and without one of what was done before."""
    parts = urlsplit(address)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in (PLACED, RELEASED)]
    return f"{parts.path}?{urlencode([*kept, (note, str(number))])}"


def note_of(request: Request, sources: Sources, board: Board | None) -> str:
    """Return what the page says was done; empty for nothing."""
    asked = request.query_params
    placed, released = asked.get(PLACED, ""), asked.get(RELEASED, "")
    if board is None or not any(is_number(each) and len(each) <= _LONGEST_NUMBER for each in (placed, released)):
        return ""
    in_force = {str(each.id): each for each in sources.protections()}
    if placed in in_force:
        told = (
            f"{one['what']} is protected by {one['by']}, {one['ends']}."
            for one in protections([in_force[placed]], board, sources.clock.wall_s())
        )
        return "".join(each[0].upper() + each[1:] for each in told)
    if released and released not in in_force:
        return f"Protection {released} is released."
    return ""
