"""Run the daemon's socket and page in one thread, with one event loop and one app.

Nothing in here decides anything, and no failure in here can stop the policies: what cannot be opened is
reported, and the daemon runs on without it. The page can be closed and opened again at any time.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from fallow.core.errors import FallowError
from fallow.engine.daemon.sources import Sources
from fallow.engine.machine.background import Background
from fallow.interfaces.socket import server
from fallow.interfaces.socket.access import SocketAccess
from fallow.interfaces.web.app import make_app
from fallow.interfaces.web.server import HttpServer

_CLOSES_WITHIN_S = 5.0
_OPENS_AGAIN_S = 1.0
_MOST_REPORTED = 20
_READERS = 2
"""How many threads read the disk for those who ask: they share the interpreter with the policies."""

OpenPage = Callable[[ASGIApp], HttpServer | None]


class ServerThread:
    """The thread that serves the socket and the page; the main thread opens and closes it."""

    def __init__(
        self, socket_path: str | None, sources: Sources, open_page: OpenPage, tell: Callable[[str], None]
    ) -> None:
        """Return once socket and page are open, or it is reported why they are not. `open_page` takes the app."""
        self._path = socket_path
        self._app = make_app(sources)
        self._socket_app = SocketAccess(self._app, sources.simulated)
        self._open_page = open_page
        self._tell = tell
        self._reported: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_READERS, "fallow-reads"))
        self._over = asyncio.Event()
        self._page: HttpServer | None = None
        self._page_ended = threading.Event()
        self._socket_settled = threading.Event()
        self._thread = Background[None]("the daemon's server", lambda _: self._run(), tell)
        self._pages = Background[bool]("the page", self._renew, tell)
        self._thread.give(None)
        if socket_path is not None:
            self._socket_settled.wait()
        self._renew(changed=True)

    def renew_page(self, *, changed: bool) -> None:
        """Open the page again if its config or a token has changed, or if there is none: its port may be free now."""
        self._pages.give(changed)  # in a thread, because the policies must not wait for slow clients

    def close(self) -> None:
        """Close the socket, the page and all connections."""
        self._pages.end(_CLOSES_WITHIN_S)
        self._close_page()
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.end(_CLOSES_WITHIN_S)

    def _renew(self, changed: bool) -> None:
        if not changed and self._page is not None and not self._page.has_old_tokens():
            return
        self._close_page()
        page = self._open_page(self._app)
        if page is not None:
            settled = threading.Event()
            self._page, self._page_ended = page, threading.Event()
            asyncio.run_coroutine_threadsafe(self._serve_page(page, settled, self._page_ended), self._loop)
            settled.wait()

    def _close_page(self) -> None:
        page = self._page
        if page is not None:
            page.stop()
            self._page_ended.wait(_CLOSES_WITHIN_S)
            self._page = None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(self._went_wrong)
        async with self._app.router.lifespan_context(self._app):
            tasks = [] if self._path is None else [asyncio.create_task(self._serve_socket(self._path))]
            await self._over.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _went_wrong(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error that nothing else catches, such as no descriptor left: once, without a traceback."""
        error = context.get("exception")
        sentence = f"the daemon's server: {context.get('message')}" + (f" ({error!r})" if error else "")
        if sentence not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(sentence)
            self._tell(sentence)

    async def _serve_socket(self, path: str) -> None:
        settled = self._socket_settled
        await self._open(
            "nobody can ask the daemon",
            settled,
            partial(server.serve, path, self._socket_app, settled.set),
        )

    async def _serve_page(self, page: HttpServer, settled: threading.Event, ended: threading.Event) -> None:
        try:
            await self._open("there is no page", settled, partial(page.run, settled.set))
        finally:
            if self._page is page:
                self._page = None
            ended.set()

    async def _open(
        self, without: str, settled: threading.Event, serve: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        try:
            while await self._has_failed(without, serve):
                await asyncio.sleep(_OPENS_AGAIN_S)
        finally:
            settled.set()  # whatever happened, no thread waits for it

    async def _has_failed(self, without: str, serve: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Serve; return whether an internal error ended it, so that it must be opened again."""
        try:
            await serve()
        except (FallowError, OSError) as error:
            self._tell(f"{without}: {error}")
        except Exception as error:  # noqa: BLE001  a server that broke must not stay closed without a report
            self._tell(f"{without} for a moment: internal error ({type(error).__name__}: {error})")
            return True
        return False
