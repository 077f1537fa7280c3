"""Who asks: put into the state of each request by what stands before the app."""

from fastapi import Request

from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.value import value
from fallow.core.visibility import ANYBODY, Viewer
from fallow.engine.daemon.sources import CannotActFor, NoSuchSubject, Peer


@value
class Caller:
    """Who asks, and what follows from it."""

    key: str
    """By which one caller's questions are told from another's: a user, or the page."""
    viewer: Viewer = ANYBODY
    """Whose command lines they may read."""
    peer: Peer | None = None
    """On the socket: the process that asks, by the kernel's word. None on the page."""
    knows_token: bool = False
    """On the page: whether they have shown the token."""
    has_token: bool = False
    """On the page: whether there is a token that they could show."""

    @property
    def may_change(self) -> bool:
        """Whether protections may be placed and released: on the socket in one's own name, on the page by token."""
        return self.peer is not None or self.knows_token


class Refused(Exception):
    """A question that is not answered: the HTTP status, a reason for programs, and a sentence."""

    def __init__(self, code: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.reason = reason
        self.detail = detail
        self.headers = headers


def caller_of(request: Request) -> Caller:
    """Return who asks."""
    found: Caller = request.state.caller
    return found


def demand_change(request: Request) -> Peer | None:
    """Let on only those who may change something; return in whose name."""
    caller = caller_of(request)
    if not caller.may_change:
        if not caller.has_token:
            raise Refused(403, "permission", "nobody can do this here: the config names no token_file")
        raise Refused(401, "token", "this needs the token", {"www-authenticate": "Bearer"})
    return caller.peer


def refused(error: FallowError) -> Refused:
    """Return the refusal that an error of the engine means."""
    match error:
        case NoSuchSubject():
            return Refused(404, "usage", str(error))
        case WrongUsage():
            return Refused(422, "usage", str(error))
        case NotPermitted():
            return Refused(403, "permission", str(error))
        case CannotActFor():
            return Refused(409, "alone", str(error))
        case _:
            return Refused(503, "failed", str(error))
