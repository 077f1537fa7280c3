"""Questions over HTTP to a server that the config names."""

import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.core.http import HttpAnswer
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.remote_http import RemoteHttp, server_at
from tests.places import LIMIT_S

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
Serve = Callable[[Callable[[socket.socket, bytes], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve connections on a port of the loopback interface; its number."""
    listeners: list[socket.socket] = []

    def start(answer: Callable[[socket.socket, bytes], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        answer(connection, connection.recv(65536))

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def asked(port: int, limit_s: float = LIMIT_S, token_file: str = "", scheme: str = "http") -> HttpAnswer | Unknown:
    http = RemoteHttp(SystemClock(), server_at(f"{scheme}://127.0.0.1:{port}/x/"), token_file, most_bytes=1000)
    return http("GET", "/y?z=1", {}, limit_s)


def test_the_configured_host_is_asked_under_its_prefix_and_no_proxy_is(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    heard: list[bytes] = []

    def answer(connection: socket.socket, question: bytes) -> None:
        heard.append(question)
        connection.sendall(OK)

    port = serve(answer)
    assert asked(port) == HttpAnswer(200, b"{}")
    assert heard[0].startswith(f"GET /x/y?z=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())
    assert b"Authorization" not in heard[0]


def test_the_token_is_read_at_each_question(serve: Serve, tmp_path: pathlib.Path) -> None:
    heard: list[bytes] = []

    def answer(connection: socket.socket, question: bytes) -> None:
        heard.append(question)
        connection.sendall(OK)

    port = serve(answer)
    file = tmp_path / "token"
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert asked(port, token_file=str(file)) == HttpAnswer(200, b"{}")
        assert f"Authorization: Bearer {token}\r\n".encode() in heard[-1]
    for wrong in ("", "two words", "a\r\nX: y", "é"):
        file.write_text(wrong)
        assert isinstance(asked(port, token_file=str(file)), Unknown)
    assert isinstance(asked(port, token_file=str(tmp_path)), Unknown)
    assert isinstance(asked(port, token_file=str(tmp_path / "none")), Unknown)
    assert len(heard) == 2


def test_a_server_that_is_not_there_is_told_in_words_without_a_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = asked(port)
    assert isinstance(found, Unknown)
    assert found.why.endswith(" cannot be asked: Connection refused")


NEIGHBOUR = """
import os, socket, sys
os.setresuid(*(int(sys.argv[2]),) * 3)
own = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(own.getsockname()[1], flush=True)
connection, _ = own.accept()
print(int(bool(connection.recv(65536))), flush=True)
connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
"""


@pytest.mark.as_root
@pytest.mark.parametrize(
    ("address", "uid", "heard"), [("127.0.0.1", 61003, False), ("::1", 61003, False), ("127.0.0.1", 103, True)]
)
def test_who_took_the_port_of_a_server_of_this_machine_is_told_nothing_and_not_believed(
    address: str, uid: int, heard: bool, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    command = [sys.executable, "-c", NEIGHBOUR, address, str(uid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as neighbour:
        assert neighbour.stdout is not None
        port = int(neighbour.stdout.readline())
        where = f"[{address}]" if ":" in address else address
        found = RemoteHttp(SystemClock(), server_at(f"http://{where}:{port}"), str(file))("GET", "/", {}, LIMIT_S)
        assert int(neighbour.stdout.readline()) == heard
    assert (found == HttpAnswer(200, b"{}")) is heard
    if isinstance(found, Unknown):
        assert "user 61003 listens there, who is neither root, a system user nor the user of fallow" in found.why


def test_a_redirect_is_not_followed(serve: Serve) -> None:
    elsewhere: list[bytes] = []
    other = serve(lambda _, question: elsewhere.append(question))
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\n\r\n".encode()
    assert asked(serve(lambda connection, _: connection.sendall(moved))) == HttpAnswer(302, b"")
    assert elsewhere == []


def test_a_server_that_cannot_prove_who_it_is_is_unknown(serve: Serve) -> None:
    assert isinstance(asked(serve(lambda connection, _: connection.sendall(OK)), scheme="https"), Unknown)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://x",
        "//x",
        "http://",
        "http://a:b@c",
        "http://a?b",
        "http://a b",
        "http://a:x",
        "http://\x1b",
    ],
)
def test_only_addresses_of_http_and_https_are_taken(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|[Pp]ort"):
        server_at(url)
