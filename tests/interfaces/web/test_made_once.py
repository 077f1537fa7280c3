"""What is made for the first who asks."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from fallow.interfaces.web.made_once import MadeOnce


def test_all_who_ask_at_once_get_the_one_thing_that_is_made_in_another_thread() -> None:
    made: list[threading.Thread] = []

    def make() -> object:
        made.append(threading.current_thread())
        return object()

    async def ask() -> list[object]:
        once = MadeOnce(make)
        return [*await asyncio.gather(*(once.get() for _ in range(5))), await once.get()]

    assert len(set(asyncio.run(ask()))) == 1
    assert len(made) == 1
    assert made[0] is not threading.current_thread()


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: Iterator[OSError | int] = iter([OSError("no such file"), 7])

    def make() -> int:
        found = next(tries)
        if isinstance(found, OSError):
            raise found
        return found

    async def ask() -> int:
        once = MadeOnce(make)
        with pytest.raises(OSError, match="no such file"):
            await once.get()
        return await once.get()

    assert asyncio.run(ask()) == 7
