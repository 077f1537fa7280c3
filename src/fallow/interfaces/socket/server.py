"""Serve the daemon's unix socket, which every user of the machine may use."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp

from fallow.actuators.host.unix_socket import SocketFile
from fallow.interfaces.web.server import HttpServer

_QUEUE = 1024


async def serve(path: str, app: ASGIApp, ready: Callable[[], None]) -> None:
    """Serve at this path until cancelled. If it cannot listen, raise an error before `ready` is called."""
    file = SocketFile(path, _QUEUE)
    server = HttpServer(app, [file.socket])
    serving = asyncio.create_task(server.run(ready))
    try:
        await asyncio.shield(serving)
    finally:
        server.stop()
        try:
            await serving
        finally:
            file.close()
