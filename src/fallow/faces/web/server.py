"""uvicorn in a loop that is not its own: no signals, no log of its own, nothing to do while nobody asks.

So many connections at most, because the policies need file descriptors too.
"""

import asyncio
import resource
import socket
import struct
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from fallow.core.address import Address
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.value import replace

_MOST_CONNECTIONS = 4096
_FOR_OTHERS = 32
_WAITS_S = 2
_SEND_BUFFER_BYTES = 128 * 1024


def most_connections() -> int:
    """Half of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)


def most_streams() -> int:
    """So many of them may watch, so that others can still ask."""
    return max(1, most_connections() - _FOR_OTHERS)


def listen(address: Address) -> socket.socket:
    """A socket that listens there; before anything else starts, so that a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Those who come inherit it: the kernel keeps at most so much for each of a thousand who do not read.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listening.bind((address.host, address.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        kind = NotPermitted if isinstance(error, PermissionError) else FallowError
        raise kind(f"the page cannot listen on {address}: {error.strerror}") from None
    listening.setblocking(False)
    return listening


def bound(address: Address, listening: socket.socket) -> Address:
    """The address with the port that the system chose, where it was to choose one."""
    return replace(address, port=listening.getsockname()[1])


class PageServer:
    """Serves an app on a socket, in whatever loop runs it."""

    def __init__(self, app: FastAPI, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
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
        self._server = _Server(config, app.state.streams.close)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped; `ready` is called once it answers."""
        self._loop = asyncio.get_running_loop()
        await self._server.serve_quietly(self._listening, ready)

    def close(self) -> None:
        """For one that was never run."""
        self._listening.close()

    def stop(self) -> None:
        """End it; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._server.end)


class _Server(uvicorn.Server):
    """Waits to be told to end, where uvicorn looks ten times a second."""

    def __init__(self, config: uvicorn.Config, before_the_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_the_end = before_the_end
        self._ended = asyncio.Event()
        self._ready: Callable[[], None] = lambda: None

    async def serve_quietly(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Without touching signals, which are the policy loop's."""
        self._ready = ready
        await self._serve([listening])

    def end(self) -> None:
        """No more."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Nothing to do but wait."""
        self._ready()
        await self._ended.wait()
        self._before_the_end()


class _Wire:
    """A connection, for those who must know whether it still stands."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_cut = False

    def cut(self) -> None:
        """End it now, whatever is still on its way."""
        self.is_cut = True
        # Without lingering: the kernel forgets what the other side never took.
        carrier = self._transport.get_extra_info("socket")
        if carrier is not None:
            carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


class _Protocol(H11Protocol):
    """Shows streams the wire that they run on, and lets no more in than there is room for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        self._wire = _Wire(transport)
        self.app_state = {**self.app_state, "wire": self._wire}
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """And gone."""
        self._wire.is_cut = True
        super().connection_lost(exc)
