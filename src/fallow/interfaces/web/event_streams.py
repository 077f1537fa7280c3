"""Server-sent events for any number of watchers, at the price of one.

The policy loop only says that there is something new (`nudge`); that takes the same time for none and for a thousand
watchers, because it neither renders nor sends. The page's own loop then renders once, and hands the same bytes to
every stream. Nobody is waited for: a stream whose last bytes are still on their way is passed over, gets everything
at once when it can take it, and is cut off if that takes too long.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Protocol

from starlette.types import Send

from fallow.interfaces.web.page_parts import Parts

_MOST_MISSED = 30
_AT_ONCE = 20  # so many are told before the loop looks up again
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RECONNECT = b"retry: 3000\n\n"


class Wire(Protocol):
    """The connection under a stream."""

    lasts: bool
    """Whether what is sent on it has no end, and a limit of its own."""

    @property
    def is_cut(self) -> bool:
        """Whether the other side has gone."""

    def cut(self) -> None:
        """End it now, whatever is still on its way."""


class Stream:
    """One watcher."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.missed = 0
        self.needs_all = True
        self._next: bytes | None = None
        self._sending = True
        self._news = asyncio.Event()
        self._ending = False

    def offer(self, whole: Callable[[], bytes], changed: Callable[[], bytes]) -> None:
        """Hand it the news, if it has taken the last."""
        if self._next is not None or self._sending:
            self.missed += 1
            self.needs_all = True
            return
        self._next = whole() if self.needs_all else changed()
        self.missed, self.needs_all = 0, False
        self._news.set()

    def end(self) -> None:
        """No more news."""
        self._ending = True
        self._news.set()

    async def run(self, send: Send) -> None:
        """Send what there is, until one side ends it."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": _RECONNECT, "more_body": True})
        self._sending = False
        while True:
            await self._news.wait()
            self._news.clear()
            if self._ending or self.wire.is_cut:
                break
            body, self._next, self._sending = self._next or b"", None, True
            await send({"type": "http.response.body", "body": body, "more_body": True})
            self._sending = False
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Streams:
    """All watchers. Everything but `nudge` belongs to the page's own loop."""

    def __init__(
        self, render: Callable[[], Awaitable[Parts]], edition: str, most: int, hush_s: Callable[[], float]
    ) -> None:
        """`hush_s`: for how long it should wait before it hands out more."""
        self._render = render
        self._hush_s = hush_s
        self._edition = edition
        self._most = most
        self._streams: set[Stream] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._nudged = False
        self._last: Parts | None = None
        self.rendered = 0
        """So many times anything was rendered."""

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return len(self._streams) >= self._most

    @property
    def ails(self) -> str | None:
        """Why nobody gets any news; None if they do."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return f"the page cannot be made: {self._task.exception()!r}"

    def open(self) -> None:
        """Begin, in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._work())

    def nudge(self) -> None:
        """There is something new. From any thread; schedules at most one call, and waits for nothing."""
        if self._loop is not None and not self._nudged:
            self._nudged = True
            try:
                self._loop.call_soon_threadsafe(self._take_nudge)
            except RuntimeError:  # the loop has just been closed: nobody is left to be told
                self._loop = None

    async def attend(self, wire: Wire, send: Send) -> None:
        """Serve one watcher until it goes."""
        wire.lasts = True
        stream = Stream(wire)
        self._streams.add(stream)
        self._wanted.set()
        try:
            await stream.run(send)
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        """End all streams: those that can hear it politely, the others at once."""
        if self._task is not None:
            self._task.cancel()
        self._loop = None
        for stream in list(self._streams):
            stream.end()
            if stream.missed:
                stream.wire.cut()

    def _take_nudge(self) -> None:
        self._nudged = False
        self._wanted.set()

    async def _work(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._streams:
                await self._hand_out(await self._render())

    async def _hand_out(self, parts: Parts) -> None:
        """The same bytes for all, made when the first one needs them; some at a time, and none during a yield."""
        self.rendered += 1
        before, self._last = self._last, parts
        whole = cache(lambda: parts.whole(self._edition))
        changed = whole if before is None else cache(lambda: parts.since(before))
        for number, stream in enumerate(list(self._streams)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
                while (hush_s := self._hush_s()) > 0:
                    await asyncio.sleep(hush_s)
            if stream.wire.is_cut:
                stream.end()
                continue
            stream.offer(whole, changed)
            if stream.missed > _MOST_MISSED:
                stream.wire.cut()
