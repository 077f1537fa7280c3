"""Reads of the disk take turns by caller."""

import asyncio
import gc
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fallow.engine.history.reader import HistoryReader, open_history
from fallow.interfaces.web.disk_reads import DiskReads
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import hall, served
from tests.places import LIMIT_S


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


@pytest.mark.parametrize("path", ["/api/v1/report?since_s=7776000&by=job", "/report.csv", "/report.html"])
def test_the_daemon_answers_while_a_long_report_is_added_up(tmp_path: pathlib.Path, path: str) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slow_disk(folder: str) -> HistoryReader | None:
        begun.set()
        assert may_go_on.wait(LIMIT_S)
        return open_history(folder)

    with served(hall(varied), tmp_path, past=slow_disk) as site, ThreadPoolExecutor(1) as beside:
        report = beside.submit(site.ask, path)
        try:
            assert begun.wait(LIMIT_S)
            assert len(site.ask("/api/v1/status").json["gpus"]) == 8
            assert not report.done()
        finally:
            may_go_on.set()
        assert report.result(LIMIT_S).status == 200
