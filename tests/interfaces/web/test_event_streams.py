"""Those who watch, and one who does not read: nobody waits for them."""

import asyncio
import json
import pathlib
import selectors
import socket
import threading
import time
from itertools import count
from typing import Any, cast

import pytest
from starlette.types import Message

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.core.gpu_status import Status
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from fallow.interfaces.web.connection import Connection
from fallow.interfaces.web.connection_limit import user
from fallow.interfaces.web.event_streams import Parts, Watchers
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
        self.ended = False

    def take(self) -> None:
        """Whatever is there."""
        some = self.socket.recv(1 << 20)
        self.ended = self.ended or not some
        self.taken += some

    def take_all(self) -> None:
        """All that comes, to the end."""
        while not self.ended:
            self.take()

    @property
    def events(self) -> list[Any]:
        """What was told, in order."""
        lines = [line for line in self.taken.split(b"\r\n") if line.startswith(b"data: ")]
        return [json.loads(line[6:]) for line in lines if line.endswith(b"}\n\n")]

    def first_with(self, word: str) -> Any:
        """The first event that tells of this."""
        return next(event for event in self.events if word in json.dumps(event))

    def close(self) -> None:
        self.socket.close()


def until(watchers: list[Watcher], seen: str) -> None:
    """Read on until each has been told this."""
    waiting = selectors.DefaultSelector()
    word = seen.encode()
    for watcher in watchers:
        if word not in watcher.taken:
            waiting.register(watcher.socket, selectors.EVENT_READ, watcher)
    while waiting.get_map():
        ready = waiting.select(LIMIT_S)
        assert ready, f"{len(waiting.get_map())} were never told of {seen}"
        for key, _ in ready:
            key.data.take()
            assert not key.data.ended, "cut off"
            if word in key.data.taken:
                waiting.unregister(key.fileobj)
    waiting.close()


_newcomers = count(1)


def saying(word: str, size: int = 1) -> Board:
    """A board with somebody new on each card, who says this, with a lot around it."""
    holder = process(next(_newcomers), word, f"{word} {'x' * 90}", 1.0)
    gpus = tuple(card(index, Activity.IDLE, word, 5.0, holders=(holder,) * 6) for index in range(size))
    return board(Status("box", False, time.time(), gpus))


def test_a_rendering_that_fails_is_told_and_the_next_news_come(tmp_path: pathlib.Path) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watcher, streams = Watcher(site), site.app.state.watchers
        try:
            until([watcher], "first-word")
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
            until([watcher], "last-word")
            assert told == ["no such template"]
        finally:
            watcher.close()


def test_fifty_streams_cost_one_rendering_and_publishing_waits_for_none(tmp_path: pathlib.Path) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watchers = [Watcher(site) for _ in range(MANY)]
        try:
            until(watchers, "first-word")
            streams = site.app.state.watchers
            assert len(streams) == MANY
            renderings = Renderings(site)

            # The loop that serves is stopped, and so are all streams. Who publishes then must not notice.
            stopped, go_on = threading.Event(), threading.Event()

            def stop() -> None:
                stopped.set()
                go_on.wait(LIMIT_S)

            streams._loop.call_soon_threadsafe(stop)
            assert stopped.wait(LIMIT_S)
            for number in range(50):
                made.publish(saying(f"word-{number}"))
            assert not go_on.is_set(), "50 ticks went by while no stream moved"
            assert renderings.count == 0
            go_on.set()

            until(watchers, "word-49")
            # One for the news, and one that may have been wanted when the last watcher came.
            assert renderings.count in (1, 2), "50 ticks for 50 streams"
            assert all(b"word-48" not in watcher.taken for watcher in watchers)
            news = {json.dumps(watcher.first_with("word-49")) for watcher in watchers}
            assert len(news) == 1, "everybody was told the same"
        finally:
            for watcher in watchers:
                watcher.close()


def test_a_reader_that_does_not_read_delays_nobody_and_is_cut_off(tmp_path: pathlib.Path) -> None:
    made = hall()
    made.publish(saying("word-0", size=8))
    with served(made, tmp_path) as site:
        quick, slow = Watcher(site), Watcher(site, buffer_bytes=4096)
        try:
            until([quick], "word-0")
            streams = site.app.state.watchers
            number = 0
            while len(streams) == 2:
                number += 1
                assert number < 500, "a reader that does not read is still there"
                made.publish(saying(f"word-{number}.", size=8))
                until([quick], f"word-{number}.")
                quick.taken = b""
            assert len(streams) == 1, "the slow one"
            with pytest.raises(ConnectionResetError):
                slow.take_all()
        finally:
            quick.close()
            slow.close()


def test_only_what_changed_is_sent(tmp_path: pathlib.Path) -> None:
    made = Publisher()
    now_s = time.time()
    first = varied(now_s)
    made.publish(first)
    with served(made, tmp_path) as site:
        watcher = Watcher(site)
        until([watcher], '"edition"')
        older = tuple(replace(gpu, for_s=(gpu.for_s or 0) + 60) for gpu in first.status.gpus)
        made.publish(replace(first, status=replace(first.status, gpus=older)))
        until([watcher], "4h13m")
        news = watcher.events[-1]
        assert news.get("parts", {}).keys() <= {"actions"}, "time goes on, and that is all"
        assert news["timers"]["for-0"] == "4h13m"
        quiet = replace(older[0], activity=Activity.IDLE, reason=said("nothing ran"), for_s=0.0)
        made.publish(replace(first, status=replace(first.status, gpus=(quiet, *older[1:]))))
        until([watcher], "GPU 0 is idle now")
        news = watcher.events[-1]
        assert {"tile-0", "row-0", "summary"} <= news["parts"].keys()
        assert "tile-1" not in news["parts"]
        assert news["said"] == ["GPU 0 is idle now: nothing ran"]
        watcher.close()


def test_nothing_is_rendered_while_nobody_watches(tmp_path: pathlib.Path) -> None:
    made = hall(varied)
    with served(made, tmp_path) as site:
        renderings = Renderings(site)
        for _ in range(5):
            assert made.board is not None
            made.publish(made.board)
        assert site.ask("/healthz").status == 200, "an answer of the loop that has seen the ticks"
        assert renderings.count == 0


def test_whoever_leaves_is_forgotten_and_too_many_are_refused(tmp_path: pathlib.Path) -> None:
    made = hall(varied)
    assert made.board is not None
    with served(made, tmp_path) as site:
        streams = site.app.state.watchers
        streams._most = 2
        watchers = [Watcher(site) for _ in range(2)]
        until(watchers, '"edition"')
        refused = site.ask("/stream")
        assert refused.status == 503
        assert refused.headers["retry-after"] == "30"
        for watcher in watchers:
            watcher.close()
        while len(streams):
            made.publish(made.board)
            site.ask("/healthz")
        assert len(streams) == 0


def test_mere_figures_are_told_every_few_seconds_and_whoever_comes_at_once(tmp_path: pathlib.Path) -> None:
    made = hall()
    made.publish(saying("first-word"))
    with served(made, tmp_path) as site:
        watcher = Watcher(site)
        try:
            until([watcher], "first-word")
            made.publish(saying("second-word"))
            until([watcher], "second-word")
            shown = made.board
            assert shown is not None
            warmer = tuple(replace(gpu, temperature_c=80) for gpu in shown.status.gpus)
            renderings = Renderings(site)
            made.publish(replace(shown, status=replace(shown.status, gpus=warmer)))
            made.publish(saying("next-word"))
            until([watcher], "next-word")
            assert renderings.count == 1, "the warmth alone was not worth a rendering"
        finally:
            watcher.close()


class Wire:
    """A connection on which nobody reads."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.is_cut = self.lasts = False

    def cut(self) -> None:
        self.is_cut = True


def test_users_without_an_account_have_one_share_of_the_watchers() -> None:
    """One person may have thousands of them, and took all places."""

    async def never() -> Parts:
        raise AssertionError("nothing is rendered")

    async def send(_: Message) -> None:
        pass

    async def watch() -> None:
        watchers = Watchers(never, lambda: "", 10, lambda: 0.0)
        begun = [
            asyncio.ensure_future(watchers.attend(cast("Connection", Wire(user(200_000 + number))), send))
            for number in range(5)
        ]
        while len(watchers) < len(begun):
            await asyncio.sleep(0)
        assert watchers.has_share(user(300_000))
        assert not watchers.has_share(user(1))
        for each in begun:
            each.cancel()
        await asyncio.wait(begun)

    asyncio.run(watch())
