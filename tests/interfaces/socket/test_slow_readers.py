"""Who asks for much and does not read it is dropped in time, and nobody waits for them."""

import asyncio
import pathlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.findings import Event
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.daemon.reload import Reloaded, Requests
from fallow.engine.daemon.sources import Sources
from fallow.engine.machine.clock import SystemClock
from fallow.engine.park.wishes import WakeWish, Woken
from fallow.interfaces.socket.access import SocketAccess
from fallow.interfaces.socket.server import serve
from fallow.interfaces.web.app import make_app
from fallow.interfaces.web.connection_limit import ConnectionLimits
from fallow.readers.proc import Proc, user_name
from tests.interfaces.socket.test_server import request
from tests.places import LIMIT_S
from tests.waiting import until

pytestmark = pytest.mark.more

MIB = 2**20
EVENTS = request("GET", "/api/v1/events?limit=1")


class LongStories:
    """A journal with one event of 4 MiB, which takes until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = threading.Event()

    def events(self, key: str | None, limit: int) -> list[Event]:
        self.asked.set()
        self.go.wait()
        return [Event(1, 1.0, "verdict", "GPU 0", "idle", "x" * 4 * MIB, ())]


@pytest.fixture
def stories() -> LongStories:
    return LongStories()


@pytest.fixture
def path(tmp_path: pathlib.Path, stories: Any) -> Iterator[str]:
    """A socket that gives an answer four seconds, on a machine that may be busy."""
    proc, reloads = Proc(), Requests[None, Reloaded]()
    protections = ProtectionFolder(ClaimFolder(str(tmp_path / "claims")), user_name, proc)
    sources = Sources(
        Publisher(),
        stories.events,
        lambda: None,
        protections,
        proc,
        SystemClock(),
        None,
        lambda: reloads.ask(None),
        Requests[WakeWish, Woken]().ask,
        lambda: (),
        lambda: 1.0,
    )
    app = SocketAccess(make_app(sources), None)
    place, ready, loop = str(tmp_path / "run" / "fallow.sock"), threading.Event(), asyncio.new_event_loop()
    limits = ConnectionLimits(connections=16, of_user=16, request_s=30.0, answer_s=4.0)
    task = loop.create_task(serve(place, app, ready.set, print, limits))

    def answer() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=answer)
    thread.start()
    assert ready.wait(LIMIT_S)
    yield place
    stories.go.set()
    loop.call_soon_threadsafe(task.cancel)
    thread.join(LIMIT_S)
    reloads.close()
    assert not pathlib.Path(place).exists()


def connect(path: str, sent: bytes) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LIMIT_S)
    connection.connect(path)
    connection.sendall(sent)
    return connection


def all_of(path: str) -> bytes:
    with connect(path, EVENTS) as eager:
        return eager.makefile("rb").read()


def answers(path: str) -> bool:
    with connect(path, request("GET", "/api/v1/daemon")) as connection:
        return connection.makefile("rb").read().startswith(b"HTTP/1.1 200")


def test_an_answer_that_nobody_reads_is_given_up(path: str, stories: LongStories) -> None:
    stories.go.set()
    with connect(path, EVENTS) as lazy:
        whole = until(
            lambda: all_of(path), lambda got: len(got) > 4 * MIB
        )  # in time, as soon as the machine is not busy
        assert answers(path), "asked and answered while the lazy one is still connected"
        got = _after_a_hang_up(lazy)
    assert len(got) < len(whole), "the rest was thrown away when the time was over"


def test_a_journal_that_takes_its_time_keeps_nobody_else_from_an_answer(path: str, stories: LongStories) -> None:
    with connect(path, EVENTS) as slow:
        assert stories.asked.wait(LIMIT_S)
        assert answers(path)
        stories.go.set()
        slow.makefile("rb").read()


def _after_a_hang_up(connection: socket.socket) -> bytes:
    """What had come through when the other side hung up; nothing is read before that."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    assert poll.poll(30_000), "nobody ever hung up"
    got = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(MIB):
            got += chunk
    return got
