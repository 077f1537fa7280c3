"""The daemon's doors, in a thread of their own: one loop serves the socket and the page.

Nothing in here decides anything, and nothing that happens in here can stop the policies: a door that cannot be opened
is told, and the daemon goes on without it. A page can be shut and another shown in its place at any time.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fallow.core.errors import FallowError
from fallow.engine.daemon.sources import Sources
from fallow.engine.machine.lasting_thread import steady
from fallow.interfaces.socket import server

if TYPE_CHECKING:
    from fallow.interfaces.web.server import PageServer

_CLOSES_WITHIN_S = 5.0
_OPENS_AGAIN_S = 1.0
_MOST_TOLD = 20


class ServerThread:
    """Opened by the main thread, and closed by it."""

    def __init__(
        self, socket_path: str | None, sources: Sources, page: "PageServer | None", tell: Callable[[str], None]
    ) -> None:
        """Returns when each door is open, or has said why it is not."""
        self._path = socket_path
        self._sources = sources
        self._tell = tell
        self._told: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._page: PageServer | None = None
        self._page_ended = threading.Event()
        self._changing = threading.Lock()
        self._desk_settled = threading.Event()
        self._thread = steady("the doors of the daemon", self._run, tell)
        if socket_path is not None:
            self._desk_settled.wait()
        self.show(page)

    def show(self, page: "PageServer | None") -> None:
        """From now on this page, or none. Returns when it is open, or has said why it is not."""
        self.shut_page()
        if page is not None:
            settled = threading.Event()
            self._page, self._page_ended = page, threading.Event()
            asyncio.run_coroutine_threadsafe(self._show_the_page(page, settled, self._page_ended), self._loop)
            settled.wait()

    def renew_page(self, make: "Callable[[], PageServer | None]", *, changed: bool) -> None:
        """Open the page anew where its config has changed, or where there is none: its port may be free by now."""

        def renew() -> None:
            with self._changing:
                if changed or self._page is None:
                    self.shut_page()
                    self.show(make())

        steady("the page", renew, self._tell)  # beside the policies, which wait for nobody who reads slowly

    def shut_page(self) -> None:
        """No page; whoever was watching it is cut off."""
        page = self._page
        if page is not None:
            page.stop()
            self._page_ended.wait(_CLOSES_WITHIN_S)
            self._page = None

    def close(self) -> None:
        """End both, and whoever is still connected."""
        with self._changing:
            self.shut_page()
        with suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_CLOSES_WITHIN_S)

    def _run(self) -> None:
        if self._loop.is_closed():  # it has failed, and begins again
            self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(self._went_wrong)
        door = None
        if self._path is not None:
            door = asyncio.create_task(self._answer_at_the_desk(self._path))
        await self._over.wait()
        if door is not None:
            door.cancel()
            await asyncio.gather(door, return_exceptions=True)

    def _went_wrong(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody else catches, such as no descriptor for whoever comes: told once, without a traceback."""
        error = context.get("exception")
        sentence = f"a door of the daemon had trouble: {context.get('message')}" + (f" ({error!r})" if error else "")
        if sentence not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(sentence)
            self._tell(sentence)

    async def _answer_at_the_desk(self, path: str) -> None:
        settled = self._desk_settled
        serve = partial(server.serve, path, self._sources, settled.set, self._tell)
        await self._open("nobody can ask the daemon", settled, serve)

    async def _show_the_page(self, page: "PageServer", settled: threading.Event, ended: threading.Event) -> None:
        try:
            await self._open("there is no page", settled, partial(page.run, settled.set))
        finally:
            if self._page is page:
                self._page = None
            ended.set()

    async def _open(
        self, without: str, settled: threading.Event, door: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        try:
            while await self._has_failed(without, door):
                await asyncio.sleep(_OPENS_AGAIN_S)
        finally:
            settled.set()  # whatever happened, nobody waits for this door

    async def _has_failed(self, without: str, door: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Whether it has ended by a mistake of ours, and is to be opened again."""
        try:
            await door()
        except (FallowError, OSError) as error:
            self._tell(f"{without}: {error}")
        except Exception as error:  # noqa: BLE001  a door that broke must not stay shut in silence
            self._tell(f"{without} for a moment: internal error ({type(error).__name__}: {error})")
            return True
        return False
