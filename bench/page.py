"""What the page of 64 GPUs costs: to render it whole, with a day of history, and to tell a second's news."""

import asyncio
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

from bench.machine import promise
from fallow.core.value import replace
from fallow.engine.history.writer import HistoryWriter
from tests.interfaces.web.boards import many
from tests.interfaces.web.served import hall, served

SIZE, TIMES, HISTORY = 64, 20, 200
RENDER_LIMIT_MS, NEWS_LIMIT_BYTES = 100.0, 50_000


def main() -> bool:
    """Measure, print, and say whether the promises were kept."""
    boards = hall()
    now_s = time.time()
    board = many(now_s, SIZE)
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "state").mkdir()
        history = HistoryWriter(str(home / "state"), print)
        for step in range(HISTORY):
            turned = board.status.gpus[step % SIZE :] + board.status.gpus[: step % SIZE]
            gpus = tuple(replace(gpu, index=index, uuid=f"GPU-{index:08d}") for index, gpu in enumerate(turned))
            history.record(replace(board.status, wall_s=now_s - HISTORY + step, gpus=gpus))
        history.close()
        boards.publish(board)
        with served(boards, home) as site:
            watchers = site.app.state.watchers
            whole_ms = [_cpu_ms(lambda: site.ask("/")) for _ in range(TIMES)]
            first = asyncio.run_coroutine_threadsafe(watchers._render(), watchers._loop).result(60)
            later = tuple(replace(gpu, power_w=333.0, for_s=(gpu.for_s or 0.0) + 3600) for gpu in board.status.gpus)
            boards.publish(replace(board, status=replace(board.status, gpus=later)))
            news = asyncio.run_coroutine_threadsafe(watchers._render(), watchers._loop).result(60).since(first)
    render_ms = statistics.median(whole_ms)
    print(
        f"the page of {SIZE} GPUs: {render_ms:.1f} ms of CPU time for the whole ({whole_ms[0]:.0f} ms the first time)"
    )
    print(f"  {len(news)} bytes of news if every figure changes")
    kept = render_ms <= RENDER_LIMIT_MS and len(news) <= NEWS_LIMIT_BYTES
    return promise(f"at most {RENDER_LIMIT_MS:.0f} ms, and {NEWS_LIMIT_BYTES // 1000} kB a second", kept=kept)


def _cpu_ms(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) * 1000
