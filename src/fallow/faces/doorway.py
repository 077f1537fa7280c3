"""The daemon's doors, in a thread of their own: one loop serves the socket and the page.

Nothing in here decides anything, and nothing that happens in here can stop the policies: a door that cannot be opened
is told, and the daemon goes on without it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from fallow.core.errors import FallowError
from fallow.engine.sources import Sources
from fallow.engine.steady import steady
from fallow.faces import desk

if TYPE_CHECKING:
    from fallow.faces.web.server import PageServer

_CLOSES_WITHIN_S = 5.0
_OPENS_AGAIN_S = 1.0


class Doorway:
    """Opened by the main thread, and closed by it."""

    def __init__(
        self, socket_path: str | None, sources: Sources, page: "PageServer | None", tell: Callable[[str], None]
    ) -> None:
        """Returns when each door is open, or has said why it is not."""
        self._path = socket_path
        self._sources = sources
        self._page = page
        self._tell = tell
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._settled = threading.Semaphore(0)
        self._thread = steady("the doors of the daemon", self._run, tell)
        for door in (socket_path, page):
            if door is not None:
                self._settled.acquire()

    def close(self) -> None:
        """End both, and whoever is still connected."""
        with suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_CLOSES_WITHIN_S)

    def _run(self) -> None:
        if self._loop.is_closed():  # it has failed, and begins again
            self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        doors: list[asyncio.Task[None]] = []
        if self._path is not None:
            doors.append(asyncio.create_task(self._answer_at_the_desk(self._path)))
        if self._page is not None:
            doors.append(asyncio.create_task(self._show_the_page(self._page)))
        await self._over.wait()
        if self._page is not None:
            self._page.stop()
            await doors[-1]
        for door in doors:
            door.cancel()
        await asyncio.gather(*doors, return_exceptions=True)

    async def _answer_at_the_desk(self, path: str) -> None:
        await self._open("nobody can ask the daemon", lambda: desk.serve(path, self._sources, self._settled.release))

    async def _show_the_page(self, page: "PageServer") -> None:
        await self._open("there is no page", lambda: page.run(self._settled.release))

    async def _open(self, without: str, door: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            while await self._has_failed(without, door):
                await asyncio.sleep(_OPENS_AGAIN_S)
        finally:
            self._settled.release()  # whatever happened, nobody waits for this door

    async def _has_failed(self, without: str, door: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Whether it has ended by a mistake of ours, and is to be opened again."""
        try:
            await door()
        except (FallowError, OSError) as error:
            self._tell(f"{without}: {error}")
        except Exception as error:  # noqa: BLE001  a door that broke must not stay shut in silence
            self._tell(f"{without} for a moment, by a mistake of fallow's own ({type(error).__name__}: {error})")
            return True
        return False
