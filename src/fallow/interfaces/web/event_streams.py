"""Send server-sent events: a queue for each watcher, and the same bytes for all.

The policy loop only signals that there is something new (`nudge`), which neither renders nor sends. The server's loop
then renders once, and puts what changed into every queue. It waits for no watcher: one whose queue is full has not
read for a while, and is disconnected. A browser then connects again by itself, and gets everything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.types import Send

from fallow.interfaces.web.page_parts import Parts

if TYPE_CHECKING:
    from fallow.interfaces.web.connection import Connection

_MOST_WAITING = 30
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RECONNECT = b"retry: 3000\n\n"


class Watchers:
    """All watchers. Call everything but `nudge` in the event loop of the server."""

    def __init__(
        self,
        render: Callable[[], Awaitable[Parts]],
        edition: Callable[[], str],
        pause_s: Callable[[], float],
    ) -> None:
        """`pause_s` returns how long to wait before more is sent."""
        self._render = render
        self._pause_s = pause_s
        self._edition = edition
        self._new: set[_Watcher] = set()
        self._told: set[_Watcher] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._last: Parts | None = None

    def __len__(self) -> int:
        return len(self._new) + len(self._told)

    def open(self) -> None:
        """Start, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._work())

    def nudge(self) -> None:
        """Signal from any thread, without waiting, that something is new. Raise RuntimeError if the loop closed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wanted.set)

    async def attend(self, wire: "Connection", send: Send) -> None:
        """Send events to one watcher until they leave."""
        wire.lasts = True
        watcher = _Watcher(wire)
        wire.when_lost = watcher.wake
        self._new.add(watcher)
        self._wanted.set()
        try:
            await watcher.run(send)
        finally:
            self._new.discard(watcher)
            self._told.discard(watcher)

    def close(self) -> None:
        """End all streams."""
        if self._task is not None:
            self._task.cancel()
        self._loop = None
        for watcher in (*self._new, *self._told):
            watcher.wire.cut()

    async def _work(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while (pause_s := self._pause_s()) > 0:
                await asyncio.sleep(pause_s)
            if self:
                try:
                    self._hand_out(await self._render())
                except Exception as error:  # noqa: BLE001  the next news may be rendered
                    problem = {"message": "the page cannot be made", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(problem)

    def _hand_out(self, parts: Parts) -> None:
        before, self._last = self._last, parts
        if self._told and before is not None:
            changed = parts.since(before)
            for watcher in self._told:
                watcher.offer(changed)
        if self._new:
            whole = parts.whole(self._edition())
            for watcher in self._new:
                watcher.offer(whole)
            self._told |= self._new
            self._new.clear()


class _Watcher:
    """One watcher, and the events that wait to be sent to them."""

    def __init__(self, wire: "Connection") -> None:
        self.wire = wire
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)

    def offer(self, news: bytes) -> None:
        """Put an event into the queue; if the queue is full, end the connection."""
        if self._waiting.full():
            self.wire.cut()
        else:
            self._waiting.put_nowait(news)

    def wake(self) -> None:
        """Wake the stream, so that it notices that the connection has ended."""
        if self._waiting.empty():
            self._waiting.put_nowait(b"")

    async def run(self, send: Send) -> None:
        """Send events until the connection ends."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": _RECONNECT, "more_body": True})
        while not self.wire.is_cut:
            await send({"type": "http.response.body", "body": await self._waiting.get(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
