"""Questions over HTTP to servers of this machine, and to one that the config names: they do what they like."""

import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.http import LocalHttp, RemoteHttp
from fallow.readers.sockets import listener_of
from tests.places import LIMIT_S

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
ME = frozenset((os.geteuid(),))
Answer = Callable[[socket.socket], None]
Asked = Callable[[int, float], HttpAnswer | Unknown]


class Server:
    """Serves connections on a port of the loopback interface, one after the other."""

    def __init__(self, answer: Answer) -> None:
        self.heard: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self._answer = answer
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, suppress(OSError):
                    self.heard += filter(None, [connection.recv(65536)])
                    self._answer(connection)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    servers: list[Server] = []

    def start(answer: Answer) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        with suppress(OSError):
            server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()


def says(answer: bytes) -> Answer:
    return lambda connection: connection.sendall(answer)


def local(port: int, limit_s: float = LIMIT_S) -> HttpAnswer | Unknown:
    return LocalHttp(SystemClock())(Endpoint(port=port, users=ME), "GET", "/x", {}, limit_s)


def remote(port: int, limit_s: float = LIMIT_S, token_file: str = "", scheme: str = "http") -> HttpAnswer | Unknown:
    http = RemoteHttp(SystemClock(), f"{scheme}://127.0.0.1:{port}/x/", token_file, most_bytes=1000)
    return http("GET", "/y?z=1", {}, limit_s)


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def trickles(connection: socket.socket) -> None:
    connection.settimeout(0.05)
    while True:
        connection.sendall(b"H")
        with suppress(TimeoutError):
            if not connection.recv(1):
                return


@pytest.mark.parametrize("asked", [local, remote])
@pytest.mark.parametrize(
    ("answer", "limit_s", "found"),
    [
        (says(OK), LIMIT_S, HttpAnswer(200, b"{}")),
        (says(CHUNKED), LIMIT_S, HttpAnswer(200, b"{}")),
        (lambda connection: connection.recv(1), 0.3, "did not answer within"),
        (trickles, 0.5, "did not answer within"),
        (endless, LIMIT_S, "its answer does not end"),
        (says(b"rubbish\r\n\r\n"), LIMIT_S, "cannot be asked"),
        (says(OK[:-1]), LIMIT_S, "cannot be asked"),
        (says(b""), LIMIT_S, "cannot be asked"),
        (says(b"HTTP/1.1 " + b"9" * 100000), LIMIT_S, "cannot be asked"),
    ],
)
def test_an_answer_is_whole_or_it_is_unknown_why_there_is_none(
    serve: Callable[[Answer], Server], asked: Asked, answer: Answer, limit_s: float, found: HttpAnswer | str
) -> None:
    told = asked(serve(answer).port, limit_s)
    assert told == found if isinstance(found, HttpAnswer) else isinstance(told, Unknown) and found in told.why


@pytest.mark.parametrize("asked", [local, remote])
def test_a_server_that_is_not_there_is_told_in_words_without_a_number(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = asked(port, LIMIT_S)
    assert isinstance(found, Unknown)
    assert found.why.endswith(" cannot be asked: Connection refused")


def test_a_server_of_another_user_is_not_asked(serve: Callable[[Answer], Server]) -> None:
    server = serve(says(OK))
    to = Endpoint(port=server.port, users=frozenset((61001,)))
    told = LocalHttp(SystemClock())(to, "GET", "/x", {}, LIMIT_S)
    assert told == Unknown(f"the server at port {server.port} belongs to user {os.geteuid()}")
    assert server.heard == []


def test_only_who_listens_is_the_server_of_a_port(serve: Callable[[Answer], Server]) -> None:
    port = serve(says(OK)).port
    with socket.create_connection(("127.0.0.1", port)) as connection:
        assert listener_of(port) == os.geteuid()
        assert listener_of(connection.getsockname()[1]) is None


@pytest.mark.parametrize("token", ["a\r\nX: y", "a\x00b", "\x1b[2J"])
def test_a_token_that_would_write_more_than_a_header_is_not_sent(
    serve: Callable[[Answer], Server], token: str
) -> None:
    server = serve(says(OK))
    to = Endpoint(port=server.port, users=ME)
    assert isinstance(LocalHttp(SystemClock())(to, "GET", "/x", {"Authorization": token}, LIMIT_S), Unknown)
    assert server.heard == []


def test_the_configured_host_is_asked_under_its_prefix_with_the_token_of_this_moment_and_no_proxy_is(
    serve: Callable[[Answer], Server], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server = serve(says(OK))
    assert remote(server.port) == HttpAnswer(200, b"{}")
    assert server.heard[0].startswith(f"GET /x/y?z=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode())
    assert b"Authorization" not in server.heard[0]
    file = tmp_path / "token"
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert remote(server.port, token_file=str(file)) == HttpAnswer(200, b"{}")
        assert f"Authorization: Bearer {token}\r\n".encode() in server.heard[-1]
    for wrong in ("", "two words", "a\r\nX: y", "é"):
        file.write_text(wrong)
        assert isinstance(remote(server.port, token_file=str(file)), Unknown)
    assert isinstance(remote(server.port, token_file=str(tmp_path)), Unknown)
    assert isinstance(remote(server.port, token_file=str(tmp_path / "none")), Unknown)
    assert len(server.heard) == 3


NEIGHBOUR = """
import os, socket, sys
os.setresuid(*(int(sys.argv[2]),) * 3)
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
own = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
print(own.getsockname()[1], flush=True)
connection, _ = own.accept()
print(int(bool(connection.recv(65536))), flush=True)
connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
"""


@pytest.mark.as_root
@pytest.mark.parametrize(
    ("listens", "address", "uid", "heard"),
    [
        ("127.0.0.1", "127.0.0.1", 61003, False),
        ("::1", "[::1]", 61003, False),
        ("::", "127.0.0.1", 61003, False),
        ("127.0.0.1", "127.0.0.1", 103, True),
    ],
)
def test_who_took_the_port_of_a_server_of_this_machine_is_told_nothing_and_not_believed(
    listens: str, address: str, uid: int, heard: bool, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    command = [sys.executable, "-c", NEIGHBOUR, listens, str(uid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as neighbour:
        assert neighbour.stdout is not None
        port = int(neighbour.stdout.readline())
        found = RemoteHttp(SystemClock(), f"http://{address}:{port}", str(file))("GET", "/", {}, LIMIT_S)
        assert int(neighbour.stdout.readline()) == heard
    assert (found == HttpAnswer(200, b"{}")) is heard
    if isinstance(found, Unknown):
        assert "user 61003 listens there, who is neither root, a system user nor the user of fallow" in found.why


def test_a_redirect_is_not_followed(serve: Callable[[Answer], Server]) -> None:
    other = serve(says(OK))
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other.port}/\r\nContent-Length: 0\r\n\r\n".encode()
    assert remote(serve(says(moved)).port) == HttpAnswer(302, b"")
    assert other.heard == []


def test_a_server_that_cannot_prove_who_it_is_is_unknown(serve: Callable[[Answer], Server]) -> None:
    assert isinstance(remote(serve(says(OK)).port, scheme="https"), Unknown)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x", "//x", "http://", "http://a:b@c", "http://a?b", "http://a b", "http://a:x"],
)
def test_only_addresses_of_http_and_https_are_taken(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|[Pp]ort"):
        RemoteHttp(SystemClock(), url)
