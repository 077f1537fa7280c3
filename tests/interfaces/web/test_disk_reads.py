"""Reads of the disk take turns by caller."""

import asyncio
import gc
import threading

from fallow.interfaces.web.disk_reads import DiskReads


def locks() -> int:
    return sum(isinstance(thing, asyncio.Lock) for thing in gc.get_objects())


def test_reads_of_one_caller_take_turns_and_nothing_is_kept_of_callers_who_have_gone() -> None:
    alone = threading.Lock()

    def read() -> None:
        assert alone.acquire(blocking=False), "two reads of one caller at once"
        alone.release()

    async def asked() -> None:
        reads = DiskReads()
        await asyncio.gather(*(reads.ask("one", read) for _ in range(20)))
        before = locks()
        await asyncio.gather(*(reads.ask(f"caller {number}", lambda: None) for number in range(100)))
        assert locks() <= before
        reads.close()

    asyncio.run(asked())
