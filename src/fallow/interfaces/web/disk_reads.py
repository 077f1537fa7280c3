"""Run requests that read the disk in threads, one for each caller at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

_THREADS = 2
PAGE = "page"

T = TypeVar("T")


class DiskReads:
    """Runs disk reads in threads. Call all methods in the event loop of the server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "fallow-reads")
        self._locks = WeakValueDictionary[str, asyncio.Lock]()  # the lock of a caller lasts as long as their requests

    async def ask(self, caller: str, question: Callable[[], T]) -> T:
        """Return the answer to one request. A caller who sends many requests does not delay others.

        If a caller leaves early, their turn lasts until the read has ended, because what is being read must stay
        open.
        """
        async with self._locks.setdefault(caller, asyncio.Lock()):
            answer = asyncio.get_running_loop().run_in_executor(self._threads, question)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.wait([answer])
                raise

    def close(self) -> None:
        """Accept no more requests."""
        self._threads.shutdown(wait=False, cancel_futures=True)
