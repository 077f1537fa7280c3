"""The caller of a request, which the middleware puts into the request's state."""

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import Request

from fallow.core.account import Account
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.value import value
from fallow.core.visibility import ANYBODY, Viewer
from fallow.engine.daemon.sources import CannotActFor, NoSuchSubject, Peer

T = TypeVar("T")
NO_PROCESS = 0
"""The pid of a caller on the page: they are known by their token, not by a process."""


@value
class Caller:
    """Who sent a request, and what they may do."""

    viewer: Viewer = ANYBODY
    """Whose command lines the caller may read."""
    peer: Peer | None = None
    """On the socket: the calling process, as the kernel reports it. None on the page."""
    knows_token: bool = False
    """On the page: whether the caller has shown a token."""
    has_token: bool = False
    """On the page: whether a token is configured."""
    acts: Peer | None = None
    """On the page: the user that the caller acts as, by a token of their own. None with the shared token."""
    account: Account | None = None
    """On the page: the same user, as the password database has it."""

    @property
    def may_change(self) -> bool:
        """Return whether the caller may place and release protections: always on the socket, by token on the page."""
        return self.peer is not None or self.knows_token

    @property
    def acts_as(self) -> Peer | None:
        """Return the user in whose name the caller acts; None for the daemon's own, with the shared token."""
        return self.acts if self.peer is None else self.peer

    @property
    def user(self) -> str | None:
        """Return the name of the user that the caller is, for what is theirs; None if that is not known."""
        return self.viewer.user


def who_asks(caller: Caller) -> dict[str, Any]:
    """Return what the head of each page says of who asks: who they are here, and whether they can log in."""
    return {"known": caller.may_change, "mine": caller.user, "can_be_known": caller.has_token}


class Refused(Exception):
    """A request that is refused: the HTTP status, a reason for programs, and a sentence."""

    def __init__(self, code: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.reason = reason
        self.detail = detail
        self.headers = headers


def caller_of(request: Request) -> Caller:
    """Return the caller of a request."""
    found: Caller = request.state.caller
    return found


def demand_change(request: Request) -> Peer | None:
    """Raise Refused unless the caller may change something; return whom they act as, None for the daemon's user."""
    caller = caller_of(request)
    if not caller.may_change:
        if not caller.has_token:
            raise Refused(403, "permission", "nobody can do this here: the config names no token_file")
        raise Refused(401, "token", "this needs the token", {"www-authenticate": "Bearer"})
    return caller.acts_as


_REFUSALS: tuple[tuple[type[FallowError], int, str], ...] = (
    (NoSuchSubject, 404, "usage"),
    (WrongUsage, 422, "usage"),
    (NotPermitted, 403, "permission"),
    (CannotActFor, 409, "alone"),
    (FallowError, 503, "failed"),
)


def done(action: Callable[[], T]) -> T:
    """Return what came of an action of the engine; raise Refused for an error."""
    try:
        return action()
    except FallowError as error:
        raise refusal(error) from None


def refusal(error: FallowError) -> Refused:
    """Return the answer for an error, by the first class that fits."""
    code, reason = next((code, reason) for kind, code, reason in _REFUSALS if isinstance(error, kind))
    return Refused(code, reason, str(error))
