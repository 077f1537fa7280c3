"""uvicorn in a loop that is not its own: no signals, no log of its own, nothing to do while nobody asks.

So many connections at most, because the policies need file descriptors too.
"""

import asyncio
import errno
import resource
import socket
import struct
from collections.abc import Callable

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.value import replace
from fallow.engine.config.listen_address import Address
from fallow.engine.machine.clock import SystemClock
from fallow.interfaces.web.connection_limit import (
    LOOPBACK,
    Crowd,
    CrowdLimits,
    neighbourhood,
    user_place,
)
from fallow.readers.socket_users import user_of

_MOST_CONNECTIONS = 4096
_FOR_OTHERS = 32
_WAITS_S = 2
_SEND_BUFFER_BYTES = 128 * 1024
_QUEUE = 1024


def most_connections() -> int:
    """Half of the files that this process may open: the policies need the others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(_MOST_CONNECTIONS, soft // 2))


def most_streams() -> int:
    """So many of them may watch, so that others can still ask."""
    return max(1, most_connections() - _FOR_OTHERS)


def usual_limits() -> CrowdLimits:
    """Those that follow from how many connections there may be: whatever one user does, others have some."""
    most = most_connections()
    return CrowdLimits(most, of_address=max(8, most // 4), of_user=max(8, most - most // 8))


def _accepted_at_once() -> int:
    """So many are let in before anybody is sent away again: they take files too, for a moment."""
    return max(1, min(64, most_connections() // 8))


def listen(address: Address) -> socket.socket:
    """A socket that listens there; before anything else starts, so that a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Those who come inherit it: the kernel keeps at most so much for each of a thousand who do not read.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listening.bind((address.host, address.port))
        listening.listen(_QUEUE)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise FallowError(
                f"somebody else listens on {address}, where the page should be: give no token to whatever answers"
                " there; when it is free, a reload opens the page"
            ) from None
        kind = NotPermitted if isinstance(error, PermissionError) else FallowError
        raise kind(f"the page cannot listen on {address}: {error.strerror}") from None
    listening.setblocking(False)
    return listening


def bound(address: Address, listening: socket.socket) -> Address:
    """The address with the port that the system chose, where it was to choose one."""
    return replace(address, port=listening.getsockname()[1])


class PageServer:
    """Serves an app on a socket, in whatever loop runs it."""

    def __init__(self, app: FastAPI, listening: socket.socket, limits: CrowdLimits | None = None) -> None:
        self._crowd = crowd = Crowd(limits or usual_limits(), SystemClock().monotonic_s)
        config = uvicorn.Config(
            app,
            http=type("PageProtocol", (_Protocol,), {"crowd": crowd}),
            backlog=_accepted_at_once(),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_WAITS_S,
        )
        self._listening = listening
        self._server = _Server(config, listening, app.state.streams.close)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped; `ready` is called once it answers."""
        self._loop = asyncio.get_running_loop()

        def answers() -> None:
            self._listening.listen(_QUEUE)  # more may wait than are let in at once
            ready()

        try:
            await self._server.serve_quietly(answers)
        finally:
            self._crowd.close()  # whoever came while it ended

    def close(self) -> None:
        """For one that was never run."""
        self._listening.close()

    def stop(self) -> None:
        """End it; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._server.end)


class _Server(uvicorn.Server):
    """Waits to be told to end, where uvicorn looks ten times a second."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, before_the_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening
        self._before_the_end = before_the_end
        self._ended = asyncio.Event()
        self._ready: Callable[[], None] = lambda: None

    async def serve_quietly(self, ready: Callable[[], None]) -> None:
        """Without touching signals, which are the policy loop's."""
        self._ready = ready
        await self._serve([self._listening])

    def end(self) -> None:
        """No more."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Nothing to do but wait."""
        self._ready()
        await self._ended.wait()
        await self._let_nobody_in()
        self._before_the_end()

    async def _let_nobody_in(self) -> None:
        """Accept no more, and wait until those who were just accepted are known, to be ended with all others.

        asyncio drops whom it is accepting while its server closes: nobody would answer them, nor hang up.
        """
        asyncio.get_running_loop().remove_reader(self._listening)
        await asyncio.sleep(0)  # they have a transport
        await asyncio.sleep(0)  # and a protocol


class _Wire:
    """A connection, for those who must know whether it still stands."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_cut = False
        self.lasts = False
        """Whether what is sent on it has no end, and a limit of its own."""

    def cut(self) -> None:
        """End it now, whatever is still on its way."""
        self.is_cut = True
        # Without lingering: the kernel forgets what the other side never took.
        carrier = self._transport.get_extra_info("socket")
        if carrier is not None:
            carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def _place_of(transport: asyncio.Transport, address: str) -> str:
    """Where somebody comes from: an address, or a user of this machine."""
    place, carrier = neighbourhood(address), transport.get_extra_info("socket")
    uid = user_of(carrier) if place == LOOPBACK and carrier is not None else None
    return place if uid is None else user_place(uid)


class _Protocol(H11Protocol):
    """Shows streams the wire that they run on, lets no more in than there is room for, and waits for nobody."""

    crowd: Crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        self._wire = _Wire(transport)
        self._due: asyncio.TimerHandle | None = None
        self.app_state = {**self.app_state, "wire": self._wire}
        super().connection_made(transport)
        self.place = _place_of(transport, self.client[0] if self.client else "")
        self._silent = True
        self._give(self.crowd.limits.request_s)
        self.crowd.enter(self)

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        super().data_received(data)
        self._take_stock()

    def on_response_complete(self) -> None:
        """Our part is done."""
        super().on_response_complete()
        self._take_stock()

    def connection_lost(self, exc: Exception | None) -> None:
        """And gone."""
        self._wire.is_cut = True
        self._give(None)
        self.crowd.leave(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """End it now."""
        self._wire.cut()

    def _take_stock(self) -> None:
        """Whose turn it is, and how much time they have."""
        silent = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if silent == self._silent:
            return
        self._silent = silent
        limits = self.crowd.limits
        self._give(limits.request_s if silent else limits.answer_s)
        if silent:
            self.crowd.fall_silent(self)
        else:
            self.crowd.has_asked(self)

    def _give(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        if self._silent or not self._wire.lasts:
            self._wire.cut()
