"""What the page of 64 GPUs costs: to render it whole, to tell a second's news, and to plot a month."""

import asyncio
import pathlib
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing

from bench.machine import promise
from fallow.core.interval import Party
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.history.collector import text_of_parties
from fallow.engine.history.reader import open_history
from fallow.engine.history.series import SPANS, steps_of
from fallow.engine.history.store import FILE_NAME, INSERT, SCHEMA
from fallow.engine.history.writer import HistoryWriter
from tests.interfaces.web.boards import many
from tests.interfaces.web.served import hall, served

SIZE, TIMES, HISTORY, ROUNDS = 64, 20, 200, 5
RENDER_LIMIT_MS, NEWS_LIMIT_BYTES, CLICK_LIMIT_MS = 100.0, 50_000, 300.0
DAYS, USERS, QUARTER_MS = 30, 20, 900_000


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
    first_ms, read_ms, click_ms = plot_a_month()
    print(f"  {DAYS} days of them: {first_ms:.0f} ms for the first read,")
    print(f"  {read_ms:.0f} ms to read all spans ahead with the first visit, {click_ms:.0f} ms for a click")
    kept = render_ms <= RENDER_LIMIT_MS and len(news) <= NEWS_LIMIT_BYTES
    kept = kept and click_ms <= CLICK_LIMIT_MS
    limits = (
        f"{RENDER_LIMIT_MS:.0f} ms, {NEWS_LIMIT_BYTES // 1000} kB a second, and {CLICK_LIMIT_MS:.0f} ms for a click"
    )
    return promise(f"at most {limits}", kept=kept)


def plot_a_month() -> tuple[float, float, float]:
    """CPU time in ms: of a first read of the longest span; of a visit; of a click.

    The visit is the first, with all spans read ahead; the click is one on the longest after that.
    """
    board = many(time.time(), SIZE)
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "state").mkdir()
        write_a_month(home / "state" / FILE_NAME, [str(gpu.uuid) for gpu in board.status.gpus])
        first_ms = min(
            _cpu_ms(lambda: first_read(home / "state")) for _ in range(ROUNDS)
        )  # what others did is not ours
        boards = hall()
        boards.publish(board)
        with served(boards, home) as site:

            def visit() -> None:
                site.ask("/")
                while {span for _, span in site.app.state.plots._kept} != set(SPANS):
                    time.sleep(0.05)

            read_ms = _cpu_ms(visit)
            return first_ms, read_ms, _cpu_ms(lambda: site.ask("/?span=30d"))


def first_read(folder: pathlib.Path) -> None:
    """What the plots of all GPUs read of the longest span, from a file that was just opened."""
    past = open_history(str(folder))
    if past is None:
        raise RuntimeError("there is no history")
    steps_of(past, past.cards(), round(time.time() * 1000), SPANS["30d"], Prices(2.5))
    past.close()


def write_a_month(file: pathlib.Path, uuids: list[str]) -> None:
    """History as it is once it has aged: two rows for each quarter of an hour in which a GPU was held."""
    chance = random.Random(5)
    now_ms = round(time.time() * 1000) // QUARTER_MS * QUARTER_MS
    crews = [text_of_parties((Party(f"user{number % 8}", f"train{number}.py"),)) for number in range(USERS)] + ["[]"]
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.executescript(f"{SCHEMA.script}; PRAGMA user_version = {SCHEMA.version}")
        database.execute("BEGIN")
        database.executemany("INSERT INTO crew VALUES (?, ?, ?)", [(at, at, text) for at, text in enumerate(crews)])
        for card, uuid in enumerate(uuids):
            database.execute("INSERT INTO card VALUES (?, ?, ?, 'H100', 'box', 0)", (card, uuid, str(card)))
            crew = chance.randrange(len(crews))
            for quarter in range(1, DAYS * 96):
                crew = chance.randrange(len(crews)) if chance.random() < 0.1 else crew
                held = [("busy", 700_000), ("idle", 200_000)] if crew < USERS else [("free", QUARTER_MS)]
                for turn, (activity, ms) in enumerate(held):
                    row = (card, now_ms - quarter * QUARTER_MS, turn, QUARTER_MS, ms, activity, crew, 0, 0)
                    database.execute(INSERT, row)
            hours = [now_ms // 3_600_000 * 3600 - 3600 * hour for hour in range(1, DAYS * 24)]
            sums = (500, 1000, 1000, 10, 300, 10, 50, 10)
            many_rows = [(card, at_s, 3600, *sums) for at_s in hours]
            database.executemany(f"INSERT INTO sample VALUES ({', '.join('?' * 11)})", many_rows)
        database.execute("COMMIT")


def _cpu_ms(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) * 1000
