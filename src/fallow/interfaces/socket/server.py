"""Serve the daemon's unix socket, which every user of the machine may use. A deleted socket is created again."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp

from fallow.actuators.host.unix_socket import SocketFile
from fallow.interfaces.web.connection_limit import ConnectionLimits
from fallow.interfaces.web.server import HttpServer

_QUEUE = 1024
_LOOK_AGAIN_S = 5.0
LIMITS = ConnectionLimits(connections=64, of_user=16, request_s=2.0, answer_s=30.0)


async def serve(
    path: str,
    app: ASGIApp,
    ready: Callable[[], None],
    tell: Callable[[str], None],
    limits: ConnectionLimits = LIMITS,
    look_again_s: float = _LOOK_AGAIN_S,
) -> None:
    """Serve at this path until cancelled. If it cannot listen, raise an error before `ready` is called."""
    while True:
        file = SocketFile(path, _QUEUE)
        server = HttpServer(app, [file.socket], limits)
        serving = asyncio.create_task(server.run(ready))
        try:
            while file.is_there and not serving.done():
                await asyncio.wait([serving], timeout=look_again_s)
        finally:
            server.stop()
            try:
                await serving
            finally:
                file.close()
        tell(f"{path} was deleted; it is made again")
