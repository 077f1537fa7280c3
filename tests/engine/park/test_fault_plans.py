"""Whatever a server answers, it is called parked only if it says that it sleeps, and stopped only if it says not."""

import json
import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.engine.park.asleep import Sleepers
from fallow.readers.proc import Proc
from tests.engine.driven import DrivenClock
from tests.length import PLANS
from tests.places import LIMIT_S

_BIRTH = Proc().stat(os.getpid())
assert _BIRTH is not None
ME = Process(os.getpid(), _BIRTH.birth)


class PlannedServer:
    """A real server on loopback that gives the answers of a plan, one after the other; then it hangs up."""

    def __init__(self) -> None:
        self.plan: deque[bytes] = deque()
        self.given: list[tuple[str, bytes]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(65536).decode(errors="replace").partition(" HTTP")[0]
                answer = self.plan.popleft() if self.plan else b""
                self.given.append((asked, answer))
                with suppress(ConnectionError):  # it may be left before its end
                    connection.sendall(answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(LIMIT_S)


@pytest.fixture(scope="module")
def server() -> Iterator[PlannedServer]:
    made = PlannedServer()
    yield made
    made.close()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
states = st.fixed_dictionaries({"is_sleeping": st.sampled_from([True, False, True, False, "true", 1, None])})
models = st.fixed_dictionaries(
    {
        "models": st.one_of(
            st.just([]),
            st.lists(st.fixed_dictionaries({"name": st.sampled_from(["llama3:8b", "", 7, "x" * 999])}), max_size=3),
            anything,
        )
    }
)


def http(code: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (code, len(body)) + body


def answers(bodies: st.SearchStrategy[object]) -> st.SearchStrategy[bytes]:
    """Whole answers of every status, cut ones, bytes that are no HTTP, and none at all."""
    text = bodies.map(lambda body: json.dumps(body).encode())
    code = st.sampled_from([200, 200, 200, 200, 204, 301, 401, 404, 500, 503])
    whole = st.builds(http, code, st.one_of(text, st.binary(max_size=40)))
    return st.one_of(whole, whole, whole.map(lambda raw: raw[: len(raw) // 2]), st.binary(max_size=60))


def job(way: ParkWay, port: int) -> ParkedJob:
    gpus = (("GPU-1", 2**30),)
    return ParkedJob(ME, (ME,), "ada", "job 1 (vllm)", gpus, 0.0, way, server=ME, port=port, server_uid=os.getuid())


def last_state(server: PlannedServer, asked: str) -> bytes:
    return next((answer for what, answer in reversed(server.given) if what == asked), b"")


@settings(max_examples=PLANS)
@given(plan=st.lists(answers(st.one_of(states, anything)), max_size=5))
def test_a_vllm_is_parked_only_if_it_says_that_it_sleeps(server: PlannedServer, plan: list[bytes]) -> None:
    server.plan, server.given = deque(plan), []
    _, result = Sleepers(World({}, clock=DrivenClock())).park(job(ParkWay.VLLM, server.port))
    said = last_state(server, "GET /is_sleeping")
    assert result.parked is (said == http(200, b'{"is_sleeping": true}'))
    assert (not result.parked and not result.in_doubt) is (said == http(200, b'{"is_sleeping": false}'))
    assert result.words.isprintable()


@settings(max_examples=PLANS)
@given(plan=st.lists(answers(st.one_of(models, anything)), max_size=8))
def test_an_ollama_is_parked_only_if_it_says_that_nothing_is_loaded(server: PlannedServer, plan: list[bytes]) -> None:
    server.plan, server.given = deque(plan), []
    _, result = Sleepers(World({}, clock=DrivenClock())).park(job(ParkWay.OLLAMA, server.port))
    said = last_state(server, "GET /api/ps")
    assert result.parked is (said == http(200, b'{"models": []}'))
    if not result.parked and not result.in_doubt:
        assert b"llama3:8b" in said
    assert result.words.isprintable()


def test_an_answer_of_more_than_256_kib_is_not_read(server: PlannedServer) -> None:
    server.plan, server.given = deque([http(200, b'{"is_sleeping": true' + b" " * (256 << 10) + b"}")]), []
    found = Sleepers(World({})).is_parked(job(ParkWay.VLLM, server.port))
    assert isinstance(found, Unknown)
    assert "does not end" in found.why
