"""One HTTP connection of uvicorn, with one time limit for a request, and the process at its other end.

uvicorn has no limit on how long a request may take, and does not give an app the process at the other end of a unix
socket. That is why this subclass exists.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fallow.engine.daemon.sources import Peer
from fallow.readers.sockets import groups_of_peer, user_of

MOST_CONNECTIONS = 256
REQUEST_S = 10.0
"""The time for a whole request, head and body, from when the connection was made or the last answer was written."""
_CREDENTIALS = struct.Struct("3i")


class Connection(H11Protocol):
    """An HTTP connection. The app finds it as `connection` in the state of a request."""

    def __init__(self, **words: Any) -> None:  # noqa: ANN401  uvicorn's own
        super().__init__(**words)
        self._due: asyncio.TimerHandle | None = None
        self.owner = ""
        """Whose it is: a user of this machine, or an address."""
        self.peer: Peer | None = None
        """The process at the other end of a unix socket, as the kernel reports it."""
        self.is_cut = False
        self.lasts = False
        """Whether it carries a stream without an end."""
        self.when_lost: Callable[[], None] = lambda: None
        """Called when the connection has ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Identify the client, and start the time limit of its request; of too many connections the new one ends."""
        self.app_state = {**self.app_state, "connection": self}
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.cut()
            return
        carrier = transport.get_extra_info("socket")
        if carrier.family == socket.AF_UNIX:
            raw = carrier.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, gid = _CREDENTIALS.unpack(raw)
            self.peer = Peer(pid, uid, gid, groups_of_peer(carrier) | {gid})
            self.owner = f"user {uid}"
        else:
            # A user of this machine may connect from any of its addresses, so the kernel is asked about each.
            uid = user_of(carrier)
            self.owner = f"user {uid}" if uid is not None else self.client[0] if self.client else ""
        self._expect_request()

    def on_response_complete(self) -> None:
        """Note that the answer is written."""
        super().on_response_complete()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self.is_cut = True
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)
        self.when_lost()

    def cut(self) -> None:
        """End the connection now, whatever has not been sent."""
        self.is_cut = True
        self.transport.abort()

    def _expect_request(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self.loop.call_later(REQUEST_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.cut()
