"""Run uvicorn on listening sockets, in our own event loop: no signals, no log, no work without requests."""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.value import replace
from fallow.engine.config.listen_address import Address
from fallow.interfaces.web.connection import Connection
from fallow.interfaces.web.connection_limit import ConnectionLimits, Connections

_MOST_CONNECTIONS = 256
_MOST_WATCHERS = 100
_FOR_OTHERS = 32
_WAITS_S = 2
_SEND_BUFFER_BYTES = 128 * 1024
_QUEUE = 1024
_TRIES_FOR_A_PORT = 16
_OTHER_OF_LOCALHOST = {"127.0.0.1": "::1", "0.0.0.0": "::1", "::1": "127.0.0.1"}  # noqa: S104  nothing is bound to it
_TURNS_TO_KNOW = 5  # of the loop, until an accepted connection has its transport and its protocol


def most_connections() -> int:
    """Return the most connections allowed: no more than half of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(_MOST_CONNECTIONS, soft // 2))


def most_watchers() -> int:
    """Return the most watchers allowed, so that other requests can still be answered."""
    return max(1, min(_MOST_WATCHERS, most_connections() - _FOR_OTHERS))


def page_limits() -> ConnectionLimits:
    """Return the connection limits of the page."""
    most = most_connections()
    return ConnectionLimits(most, of_user=most, of_address=max(8, most // 4))


def listen(address: Address) -> list[socket.socket]:
    """Return sockets that listen at the address; raise FallowError if it cannot, such as for a port in use.

    The name localhost leads to two addresses. A page at one of them takes the other too: else a neighbour could
    listen there, and be given the token of whoever writes the name.
    """
    for tries_left in reversed(range(1 if address.port else _TRIES_FOR_A_PORT)):
        sockets: list[socket.socket] = []
        wanted = address
        try:
            for host in _hosts(address.host):
                wanted = Address(host, sockets[0].getsockname()[1] if sockets else address.port)
                sockets.append(_listening(wanted))
        except OSError as error:
            for each in sockets:
                each.close()
            if error.errno == errno.EADDRINUSE and sockets and tries_left:
                continue  # the system chose a port that somebody has at the other address
            raise _refusal(wanted, error) from None
        break
    return sockets


def bound(address: Address, listening: list[socket.socket]) -> Address:
    """Return the address with the real port, if the system chose it."""
    return replace(address, port=listening[0].getsockname()[1])


def _hosts(host: str) -> list[str]:
    """Return the address to listen at, and the other one that localhost leads to, if this machine has it."""
    first = "127.0.0.1" if host == "localhost" else host
    other = _OTHER_OF_LOCALHOST.get(first)
    return [first] if other is None or not _is_here(other) else [first, other]


def _is_here(host: str) -> bool:
    try:
        _listening(Address(host, 0)).close()
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return False
    return True


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: the kernel buffers at most this much for each client that does not read.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # :: is 0.0.0.0 too, whatever is usual
        listening.bind((address.host, address.port))
        listening.listen(_QUEUE)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _refusal(address: Address, error: OSError) -> FallowError:
    if error.errno == errno.EADDRINUSE:
        return FallowError(
            f"another program listens on {address}, where the page should be: give no token to what answers"
            " there; when it is free, a reload opens the page"
        )
    kind = NotPermitted if isinstance(error, PermissionError) else FallowError
    return kind(f"the page cannot listen on {address}: {error.strerror}")


class HttpServer:
    """Serves an app on listening sockets, in the event loop that runs it."""

    def __init__(self, app: ASGIApp, listening: list[socket.socket], limits: ConnectionLimits) -> None:
        self._connections = Connections(limits)
        self._listening = listening
        self._config = uvicorn.Config(
            app,
            http=cast("Any", partial(Connection, self._connections)),
            backlog=max(1, min(64, limits.connections // 8)),  # how many are accepted at once before any is ended
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_WAITS_S,
        )
        self.has_old_tokens: Callable[[], bool] = lambda: False
        """Returns whether the files with its tokens hold others by now, so that it must be opened again."""
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped; call `ready` once requests are answered."""
        self._loop = asyncio.get_running_loop()

        async def until_the_end() -> None:
            for each in self._listening:
                each.listen(_QUEUE)  # more may wait than are accepted at once
            ready()
            await self._ended.wait()
            await self._accept_no_more()
            self._connections.end_lasting()

        try:
            await _Server(self._config, until_the_end).serve(self._listening)
        finally:
            self._connections.close()  # those that connected while it ended

    def stop(self) -> None:
        """Stop the server, from any thread."""
        if self._loop is None:
            self._ended.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _accept_no_more(self) -> None:
        """Wait until the connections that were just accepted are known, so that they are ended with all others.

        asyncio drops connections that it is accepting while its server closes: they would get no answer and no end.
        """
        for each in self._listening:
            asyncio.get_running_loop().remove_reader(each)
        for _ in range(_TURNS_TO_KNOW):
            await asyncio.sleep(0)


class _Server(uvicorn.Server):
    """Waits for an event to end, instead of waking ten times a second as uvicorn does."""

    def __init__(self, config: uvicorn.Config, until_the_end: Callable[[], Any]) -> None:
        super().__init__(config)
        self._until_the_end = until_the_end

    async def main_loop(self) -> None:
        """Wait until the server is stopped."""
        await self._until_the_end()
