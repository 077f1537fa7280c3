"""What few ask for and takes long to load: made in a thread for the first who asks, so that nobody else waits."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class MadeOnce(Generic[T]):
    """Makes one thing once. All who ask for it meanwhile wait for the same making of it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """Return it."""
        async with self._making:
            if not self._made:
                self._made.append(await asyncio.to_thread(self._make))
        return self._made[0]
