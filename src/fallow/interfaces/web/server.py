"""Run uvicorn on listening sockets, in our own event loop: no signals, no log, no work without requests."""

import asyncio
import errno
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.value import replace
from fallow.engine.config.listen_address import Address
from fallow.interfaces.web.connection import Connection

_WAITS_S = 2
_SEND_BUFFER_BYTES = 128 * 1024
_QUEUE = 1024
_TRIES_FOR_A_PORT = 16
_OTHER_OF_LOCALHOST = {"127.0.0.1": "::1", "0.0.0.0": "::1", "::1": "127.0.0.1"}  # noqa: S104  nothing is bound to it


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

    def __init__(self, app: ASGIApp, listening: list[socket.socket]) -> None:
        self._listening = listening
        self._config = uvicorn.Config(
            app,
            http=Connection,
            backlog=_QUEUE,
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

        server = _Server(self._config, self._ended, ready)
        try:
            await server.serve(self._listening)
        finally:
            server.cut(lambda _: True)  # those that connected while it ended

    def stop(self) -> None:
        """Stop the server, from any thread."""
        if self._loop is None:
            self._ended.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ended.set)


class _Server(uvicorn.Server):
    """Waits for an event to end, instead of waking ten times a second as uvicorn does."""

    def __init__(self, config: uvicorn.Config, ended: asyncio.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ended = ended
        self._ready = ready

    async def main_loop(self) -> None:
        """Wait until the server is stopped, and end the streams that have no end."""
        self._ready()
        await self._ended.wait()
        self.cut(lambda connection: connection.lasts)

    def cut(self, which: Callable[[Connection], bool]) -> None:
        """End some connections now."""
        for each in list(self.server_state.connections):
            if isinstance(each, Connection) and which(each):
                each.cut()
