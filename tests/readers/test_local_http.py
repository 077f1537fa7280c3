"""Questions over HTTP to servers of this machine that do what they like."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.local_http import LocalHttp

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve one connection on a port of the loopback interface; its number."""
    listeners: list[socket.socket] = []

    def start(answer: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    if connection.recv(65536):
                        answer(connection)

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def asked(port: int, limit_s: float = 30.0, users: frozenset[int] = frozenset((os.geteuid(),))) -> object:
    return LocalHttp(SystemClock())(Endpoint(port=port, users=users), "GET", "/x", {}, limit_s)


def test_an_answer_is_read_whole_also_in_chunks(serve: Serve) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert asked(serve(lambda connection: connection.sendall(OK))) == HttpAnswer(200, b"{}")
    assert asked(serve(lambda connection: connection.sendall(chunked))) == HttpAnswer(200, b"{}")


def test_a_server_of_another_user_is_not_asked(serve: Serve) -> None:
    told: list[socket.socket] = []
    port = serve(told.append)
    assert asked(port, users=frozenset((61001,))) == Unknown(
        f"the server at port {port} belongs to user {os.geteuid()}"
    )
    assert told == []


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    with suppress(OSError):
        while True:
            connection.sendall(b"x" * 65536)


def never(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)


def trickles(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection.sendall(b"H")
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                if not connection.recv(1):
                    return


@pytest.mark.parametrize(
    ("answer", "limit_s", "why"),
    [
        (never, 0.3, "did not answer within"),
        (trickles, 0.5, "did not answer within"),
        (endless, 30.0, "its answer does not end"),
        (lambda connection: connection.sendall(b"rubbish\r\n\r\n"), 30.0, "cannot be asked"),
        (lambda connection: connection.sendall(OK[:-1]), 30.0, "cannot be asked"),
        (lambda connection: None, 30.0, "cannot be asked"),
        (lambda connection: connection.sendall(b"HTTP/1.1 " + b"9" * 100000), 30.0, "cannot be asked"),
    ],
)
def test_a_server_that_answers_late_never_or_without_end_is_unknown(
    serve: Serve, answer: Callable[[socket.socket], None], limit_s: float, why: str
) -> None:
    found = asked(serve(answer), limit_s)
    assert isinstance(found, Unknown)
    assert why in found.why


def test_nobody_there_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert isinstance(asked(port), Unknown)


@pytest.mark.parametrize("token", ["a\r\nX: y", "a\x00b", "\x1b[2J"])
def test_a_token_that_would_write_more_than_a_header_is_not_sent(serve: Serve, token: str) -> None:
    port = serve(lambda connection: connection.sendall(OK))
    to = Endpoint(port=port, users=frozenset((os.geteuid(),)))
    found = LocalHttp(SystemClock())(to, "GET", "/x", {"Authorization": token}, 30.0)
    assert isinstance(found, Unknown)
