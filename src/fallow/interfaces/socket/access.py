"""The middleware of the socket: it takes the caller from the kernel.

A daemon on simulated GPUs answers callers who ask for the same ones, a real one those who ask for real ones. A
caller who does not say which (any HTTP client) is answered.
"""

from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fallow.core.api import MACHINE_HEADER, REAL_MACHINE
from fallow.core.errors import FallowError
from fallow.engine.daemon.sources import Peer
from fallow.interfaces.web.access import answered, body_refusal
from fallow.interfaces.web.api_facts import problem
from fallow.interfaces.web.caller import Caller
from fallow.readers.simulated_reader import machine

_LONGEST_MACHINE = 1000


class SocketAccess:
    """The middleware that identifies callers on the socket."""

    def __init__(self, app: ASGIApp, simulated: str | None) -> None:
        self._app = app
        self._simulated = simulated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Identify the caller, and pass the request on, or answer why it is refused."""
        peer: Peer = scope["state"]["connection"].peer
        scope["state"]["caller"] = Caller(peer.viewer, peer)
        scope["state"]["same_origin"] = False
        await answered(self._refusal(Headers(scope=scope)) or self._app, scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        meant = headers.get(MACHINE_HEADER)
        if meant is not None and not _is_same_machine(self._simulated, meant):
            what = "real GPUs" if self._simulated is None else f"simulated GPUs ({self._simulated})"
            return problem(409, "machine", f"the daemon is on {what}, and others were asked for")
        return body_refusal(headers)


def _is_same_machine(ours: str | None, meant: str) -> bool:
    if ours is None or meant == REAL_MACHINE or len(meant) > _LONGEST_MACHINE:
        return ours is None and meant == REAL_MACHINE
    try:
        return machine(ours) == machine(unquote(meant))
    except FallowError:
        return False
