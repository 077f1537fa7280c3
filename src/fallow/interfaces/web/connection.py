"""One HTTP connection of uvicorn, with time limits, the turns of its owner, and the process at its other end.

uvicorn has no limit on how long a request may take or how often somebody asks, cannot end a connection that does not
read, and does not give an app the process at the other end of a unix socket. That is why this subclass exists.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fallow.engine.daemon.sources import Peer
from fallow.interfaces.web.connection_limit import LOOPBACK, Connections, neighbourhood, user
from fallow.readers.socket_users import groups_of_peer, has_hung_up, user_of

_CREDENTIALS = struct.Struct("3i")
_RESET = ""  # the kernel does not tell the address of one that the other end has reset
_NO_LINGER = struct.pack("ii", 1, 0)


class Connection(H11Protocol):
    """An HTTP connection. The app finds it as `connection` in the state of a request."""

    def __init__(self, connections: Connections, **words: Any) -> None:  # noqa: ANN401  uvicorn's own
        super().__init__(**words)
        self._all = connections
        self._due: asyncio.TimerHandle | None = None
        self._silent = True
        self._counted = False
        self._turn: asyncio.TimerHandle | None = None
        self.owner = ""
        self.peer: Peer | None = None
        """The process at the other end of a unix socket, as the kernel reports it."""
        self.is_cut = False
        self.lasts = False
        """Whether it carries a stream without an end, to which the time limit of answers does not apply."""
        self.when_lost: Callable[[], None] = lambda: None
        """Called when the connection has ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Identify the client, and start the time limit of its request."""
        self.app_state = {**self.app_state, "connection": self}
        super().connection_made(transport)
        carrier = transport.get_extra_info("socket")
        if carrier.family == socket.AF_UNIX:
            raw = carrier.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, gid = _CREDENTIALS.unpack(raw)
            self.peer = Peer(pid, uid, gid, groups_of_peer(carrier) | {gid})
            self.owner = user(self.peer.uid)
        else:
            # A user of this machine may connect from any of its addresses, so the kernel is asked about each.
            uid = user_of(carrier)
            self.owner = neighbourhood(self.client[0] if self.client else "") if uid is None else user(uid)
            if self.owner in (_RESET, LOOPBACK) and has_hung_up(carrier):
                # Its user is not known any more. It counts in nobody's share, and what it asked is not read. Who
                # only ended the half by which they send has a socket still, so the kernel has told their user.
                self.cut()
                return
        self._give(self._all.limits.request_s)
        self._all.enter(self)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._take_stock()

    def handle_events(self) -> None:
        """Read what has arrived; a new request, whatever is in it, when it is the turn of its owner."""
        begins = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if begins and not self._counted:
            self._counted = True
            wait_s = self._all.seconds_to_turn(self.owner, self.loop.time())
            if wait_s > 0:
                self._unset_keepalive_if_required()
                self.flow.pause_reading()
                self._turn = self.loop.call_later(wait_s, self._take_turn)
                return
        super().handle_events()
        self._counted = self.conn.their_state is h11.IDLE and self._counted

    def on_response_complete(self) -> None:
        """Note that the answer is written."""
        super().on_response_complete()
        self._take_stock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self.is_cut = True
        self._give(None)
        if self._turn is not None:
            self._turn.cancel()
        self._all.leave(self)
        super().connection_lost(exc)
        self.when_lost()

    def cut(self) -> None:
        """End the connection now; the kernel drops what was not received."""
        self.is_cut = True
        carrier = self.transport.get_extra_info("socket")
        if carrier is not None and self.peer is None:
            carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _take_stock(self) -> None:
        """Start the time limit of the request or of the answer, when the other one is due."""
        silent = self._turn is None and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if silent != self._silent:
            self._silent = silent
            limits = self._all.limits
            self._give(limits.request_s if silent else limits.answer_s)
            self._all.change(self, silent=silent)

    def _take_turn(self) -> None:
        self._turn = None
        if not self.is_cut:
            self.flow.resume_reading()
            self.handle_events()
            self._take_stock()

    def _give(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        if self._silent or not self.lasts:
            self.cut()
