"""Whoever asks for much and does not read it is dropped in time, and nobody waits for them."""

import asyncio
import json
import pathlib
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.board import Board
from fallow.core.findings import Event
from fallow.core.wire import VERSION
from fallow.engine.daemon.reload import Reloaded
from fallow.engine.history.reader import HistoryReader
from fallow.engine.machine.clock import SystemClock
from fallow.interfaces.socket.server import Limits, serve
from fallow.readers.proc import user_name

MIB = 2**20
REQUEST = json.dumps({"v": VERSION, "ask": "why", "simulate": None, "key": None, "most": 1}).encode() + b"\n"


class LongStories:
    """Sources with one event of 4 MiB, and one that takes until it is let go."""

    simulated = None
    clock = SystemClock()

    def __init__(self, claims: pathlib.Path) -> None:
        self.protections = ProtectionFolder(ClaimFolder(str(claims)), user_name)
        self.go = threading.Event()
        self.asked = threading.Event()

    def board(self) -> Board | None:
        return None

    def events(self, key: str | None, limit: int) -> list[Event]:
        self.asked.set()
        self.go.wait()
        return [Event(1, 1.0, "verdict", "GPU 0", "idle", "x" * 4 * MIB, ())]

    def past(self) -> HistoryReader | None:
        return None

    def reload(self) -> "Future[Reloaded]":
        return Future()


@pytest.fixture
def sources(tmp_path: pathlib.Path) -> LongStories:
    return LongStories(tmp_path / "claims")


@pytest.fixture
def path(tmp_path: pathlib.Path, sources: LongStories) -> Iterator[str]:
    """A desk that gives an answer four seconds, on a machine that may be busy."""
    place, ready, loop = str(tmp_path / "run" / "fallow.sock"), threading.Event(), asyncio.new_event_loop()
    task = loop.create_task(serve(place, sources, ready.set, limits=Limits(answer_s=4.0)))

    def answer() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=answer)
    thread.start()
    assert ready.wait(10)
    yield place
    sources.go.set()
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    assert not pathlib.Path(place).exists()


def connect(path: str, request: bytes) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(path)
    connection.sendall(request)
    return connection


def hello(path: str) -> dict[str, object]:
    with connect(path, b'{"ask": "hello"}\n') as connection:
        answer: dict[str, object] = json.loads(connection.makefile("rb").read())["ok"]
        return answer


def test_an_answer_that_nobody_reads_is_given_up(path: str, sources: LongStories) -> None:
    sources.go.set()
    with connect(path, REQUEST) as lazy, connect(path, REQUEST) as eager:
        whole = eager.makefile("rb").read()
        assert len(whole) > 4 * MIB
        assert hello(path)["speaks"] == VERSION, "asked and answered while the lazy one is still connected"
        got = _after_a_hang_up(lazy)
    assert len(got) < len(whole), "the rest was thrown away when the time was over"


def test_a_journal_that_takes_its_time_keeps_nobody_else_from_an_answer(path: str, sources: LongStories) -> None:
    with connect(path, REQUEST) as slow:
        assert sources.asked.wait(10)
        assert hello(path)["speaks"] == VERSION
        sources.go.set()
        slow.makefile("rb").read()


def _after_a_hang_up(connection: socket.socket) -> bytes:
    """What had come through when the other side hung up; nothing is read before that."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    assert poll.poll(30_000), "the desk never hung up"
    got = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(MIB):
            got += chunk
    return got
