"""Questions that read the disk, in threads beside the loop: one of each caller at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 2
PAGE = "page"

T = TypeVar("T")


class DiskReads:
    """All methods are for the loop that serves."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "fallow-reads")
        self._locks: dict[str, asyncio.Lock] = {}

    async def ask(self, caller: str, question: Callable[[], T]) -> T:
        """Return the answer to one question. A caller who asks for much makes nobody else wait.

        A caller who leaves before the answer is there keeps their turn until it is: what it reads must not be
        closed under it.
        """
        async with self._locks.setdefault(caller, asyncio.Lock()):
            answer = asyncio.get_running_loop().run_in_executor(self._threads, question)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.wait([answer])
                raise

    def close(self) -> None:
        """No more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)
