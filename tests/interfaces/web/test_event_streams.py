"""Those who watch, and one who does not read: nobody waits for them."""

import json
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any

import pytest

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.core.gpu_status import Status
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from tests.interfaces.web.boards import board, card, process, varied
from tests.interfaces.web.served import Site, hall, served
from tests.places import LIMIT_S
from tests.reasons import said

MANY = 50


class Renderings:
    """Counts how often the page is rendered."""

    def __init__(self, site: Site) -> None:
        self.count = 0
        self._watchers = site.app.state.watchers
        self._render = self._watchers._render
        self._watchers._render = self.render

    async def render(self) -> Any:
        self.count += 1
        return await self._render()


class Watcher:
    """Somebody who watches: what has come, event by event."""

    def __init__(self, site: Site, buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect((site.address.host, site.address.port))
        self.socket.sendall(f"GET /stream HTTP/1.1\r\nHost: {site.address}\r\n\r\n".encode())
        self.taken = b""

    def until(self, word: str) -> Any:
        """Read on until this has come; return the last event."""
        while word.encode() not in self.taken or not self.taken.endswith(b"\n\n\r\n"):
            some = self.socket.recv(1 << 20)
            assert some, "cut off"
            self.taken += some
        lines = [line for line in self.taken.split(b"\r\n") if line.startswith(b"data: ")]
        return json.loads(lines[-1][6:])


Watch = Callable[..., Watcher]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Begins to watch; whoever still watches at the end leaves."""
    with ExitStack() as all_of_them:

        def begin(site: Site, buffer_bytes: int | None = None) -> Watcher:
            made = Watcher(site, buffer_bytes)
            all_of_them.callback(made.socket.close)
            return made

        yield begin


_newcomers = count(1)


def saying(word: str, size: int = 1) -> Board:
    """A board with somebody new on each card, who says this, with a lot around it."""
    holder = process(next(_newcomers), word, f"{word} {'x' * 90}", 1.0)
    gpus = tuple(card(index, Activity.IDLE, word, 5.0, holders=(holder,) * 6) for index in range(size))
    return board(Status("box", False, time.time(), gpus))


def test_a_rendering_that_fails_is_told_and_the_next_news_come(tmp_path: pathlib.Path, watch: Watch) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watcher, streams = watch(site), site.app.state.watchers
        watcher.until("first-word")
        renders, failed, told = streams._render, threading.Event(), []

        async def fail() -> Any:
            streams._render = renders
            failed.set()
            raise OSError("no such template")

        streams._loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        streams._render = fail
        made.publish(saying("lost-word"))
        assert failed.wait(LIMIT_S)
        made.publish(saying("last-word"))
        watcher.until("last-word")
        assert told == ["no such template"]


def test_fifty_streams_cost_one_rendering_and_publishing_waits_for_none(tmp_path: pathlib.Path, watch: Watch) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watchers = [watch(site) for _ in range(MANY)]
        for watcher in watchers:
            watcher.until("first-word")
        renderings = Renderings(site)
        # The loop that serves is stopped, and so are all streams. Who publishes then must not notice.
        stopped, go_on = threading.Event(), threading.Event()

        def stop() -> None:
            stopped.set()
            go_on.wait(LIMIT_S)

        site.app.state.watchers._loop.call_soon_threadsafe(stop)
        assert stopped.wait(LIMIT_S)
        for number in range(50):
            made.publish(saying(f"word-{number}"))
        assert renderings.count == 0, "50 ticks went by while no stream moved"
        go_on.set()
        assert len({json.dumps(watcher.until("word-49")) for watcher in watchers}) == 1, "all were told the same"
        # One for the news, and one that may have been wanted when the last watcher came.
        assert renderings.count in (1, 2), "50 ticks for 50 streams"
        assert all(b"word-48" not in watcher.taken for watcher in watchers)


def test_a_reader_that_does_not_read_delays_nobody_and_is_cut_off(tmp_path: pathlib.Path, watch: Watch) -> None:
    made = hall()
    made.publish(saying("word-0", size=8))
    with served(made, tmp_path) as site:
        quick, slow = watch(site), watch(site, buffer_bytes=4096)
        quick.until("word-0")
        streams, number = site.app.state.watchers, 0
        while len(streams) == 2:
            number += 1
            assert number < 500, "a reader that does not read is still there"
            made.publish(saying(f"word-{number}.", size=8))
            quick.until(f"word-{number}.")
            quick.taken = b""
        assert len(streams) == 1, "the slow one"
        with suppress(ConnectionResetError):
            while slow.socket.recv(1 << 20):
                pass


def test_only_what_changed_is_sent(tmp_path: pathlib.Path, watch: Watch) -> None:
    made = Publisher()
    first = varied(time.time())
    made.publish(first)
    with served(made, tmp_path) as site:
        watcher = watch(site)
        watcher.until('"edition"')
        older = tuple(replace(gpu, for_s=(gpu.for_s or 0) + 60) for gpu in first.status.gpus)
        made.publish(replace(first, status=replace(first.status, gpus=older)))
        news = watcher.until("4h13m")
        assert news.get("parts", {}).keys() <= {"actions"}, "time goes on, and that is all"
        assert news["timers"]["for-0"] == "4h13m"
        quiet = replace(older[0], activity=Activity.IDLE, reason=said("nothing ran"), for_s=0.0)
        made.publish(replace(first, status=replace(first.status, gpus=(quiet, *older[1:]))))
        news = watcher.until("GPU 0 is idle now")
        assert {"tile-0", "row-0", "summary"} <= news["parts"].keys()
        assert "tile-1" not in news["parts"]
        assert news["said"] == ["GPU 0 is idle now: nothing ran"]


def test_nothing_is_rendered_while_nobody_watches_and_whoever_leaves_is_forgotten(
    tmp_path: pathlib.Path, watch: Watch
) -> None:
    made = hall(varied)
    assert made.board is not None
    with served(made, tmp_path) as site:
        renderings, streams = Renderings(site), site.app.state.watchers
        for _ in range(5):
            made.publish(made.board)
        assert site.ask("/healthz").status == 200, "an answer of the loop that has seen the ticks"
        assert renderings.count == 0
        watcher = watch(site)
        watcher.until('"edition"')
        assert len(streams) == 1
        watcher.socket.close()
        while len(streams):
            made.publish(made.board)
            site.ask("/healthz")


def test_mere_figures_are_told_every_few_seconds_and_whoever_comes_at_once(
    tmp_path: pathlib.Path, watch: Watch
) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watcher = watch(site)
        watcher.until("first-word")
        made.publish(saying("second-word"))
        watcher.until("second-word")
        shown = made.board
        assert shown is not None
        warmer = tuple(replace(gpu, temperature_c=80) for gpu in shown.status.gpus)
        renderings = Renderings(site)
        made.publish(replace(shown, status=replace(shown.status, gpus=warmer)))
        made.publish(saying("next-word"))
        watcher.until("next-word")
        assert renderings.count == 1, "the warmth alone was not worth a rendering"
