"""The socket: who asks too much, too slowly or nonsense costs nobody but themselves."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from fallow.actuators.host.unix_socket import SocketFile
from fallow.core.api import VERSION
from fallow.core.errors import FallowError, NotPermitted
from tests.conftest import Fallow
from tests.interfaces.socket.conftest import Start, starting
from tests.places import LIMIT_S


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of one daemon for all who only ask: to start it takes more than all their questions."""
    fallow = Fallow(tmp_path_factory.mktemp("asked"))
    fallow.environ["FALLOW_SIMULATE"] = "4xH100"
    with starting() as start:
        start(fallow.environ)
        yield fallow.environ["FALLOW_SOCKET"]


@contextmanager
def connected(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LIMIT_S)
        connection.connect(path)
        yield connection


def everything(connection: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            said += chunk
    return said


def request(method: str, target: str, body: object = None, **headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def ask(path: str, target: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, Any]:
    with connected(path) as connection:
        connection.sendall(request(method, f"/api/v1{target}", body, **headers))
        head, _, content = everything(connection).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(content or b"null")


def answers(path: str) -> bool:
    return ask(path, "/status")[0] == 200


IMPOSSIBLE: tuple[tuple[str, str, object, int], ...] = (
    ("POST", "/run", {"command": ["true"]}, 404),
    ("POST", "/status", {}, 405),
    ("POST", "/protections", {"subject": "user:no-such-user", "for_s": 3600}, 404),
    ("POST", "/protections", {"subject": "pid:1@999999999999", "for_s": 3600}, 409),
    ("POST", "/protections", "x" * 20_000, 413),
    ("DELETE", "/protections/..%2fpasswd", None, 404),
    ("DELETE", "/protections/123456789", None, 422),
)


def test_what_is_not_possible_is_refused_in_a_sentence(path: str) -> None:
    for method, target, body, code in IMPOSSIBLE:
        found, problem = ask(path, target, method, body)
        assert found == code, (method, target, body, problem)
        assert problem["detail"]
        assert problem["version"] == VERSION
    assert ask(path, "/protections") == (200, {"version": VERSION, "protections": []})
    assert ask(path, "/history/tallies?edges=1,2")[1]["tallies"] == [], "there is no history"


def test_a_caller_who_means_other_gpus_is_refused(path: str) -> None:
    for machine in ["real", "4xT4", "x" * 2000, "%ff", "4xH100, 4xT4"]:
        assert ask(path, "/status", fallow_machine=machine)[0] == 409
    assert ask(path, "/status", fallow_machine="4xH100")[0] == 200


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"\xff\xfe\r\n\r\n", b"x" * 2**24], ids=len)
def test_nonsense_and_a_request_without_an_end_are_a_bad_request(path: str, sent: bytes) -> None:
    with connected(path) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
        assert b"200 OK" not in everything(connection)
    assert answers(path)


def test_who_never_reads_keeps_nobody_from_an_answer(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        lazy.connect(path)
        lazy.sendall(request("GET", "/api/v1/status"))
        assert answers(path)


def test_it_says_who_it_is_to_whoever_asks(path: str) -> None:
    _, hello = ask(path, "/daemon")
    assert hello["simulated"] == "4xH100"
    assert hello["version"] == VERSION
    assert hello["looked_s_ago"] < 30


def test_everybody_may_connect_and_nobody_else_may_change_the_folder(path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) & 0o022 == 0


def test_the_socket_of_a_daemon_that_was_killed_is_replaced(
    simulated: Fallow, daemon: subprocess.Popen[str], start_daemon: Start
) -> None:
    path = simulated.environ["FALLOW_SOCKET"]
    daemon.send_signal(signal.SIGKILL)
    daemon.wait(LIMIT_S)
    assert os.path.exists(path)
    start_daemon(simulated.environ)
    assert answers(path)


def test_a_socket_whose_file_is_gone_is_closed_like_any_other(tmp_path: pathlib.Path) -> None:
    """F31: asyncio of Python 3.13 removes it before we do."""
    path = str(tmp_path / "another" / "fallow.sock")
    before = os.listdir("/proc/self/fd")
    file = SocketFile(path, 1)
    os.unlink(path)
    file.close()
    assert os.listdir("/proc/self/fd") == before
    SocketFile(path, 1).close()
    assert os.listdir(os.path.dirname(path)) == []


def test_there_is_no_socket_where_others_could_change_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    with pytest.raises(NotPermitted, match="others may write"):
        SocketFile(str(tmp_path / "sticky" / "fallow.sock"), 1)
    (tmp_path / "group").mkdir()
    (tmp_path / "group").chmod(0o770)
    with pytest.raises(NotPermitted, match="others may write"):
        SocketFile(str(tmp_path / "group" / "fallow.sock"), 1)
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(NotPermitted, match="it is a symbolic link or no folder"):
        SocketFile(str(tmp_path / "link" / "fallow.sock"), 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "fallow.sock").write_text("somebody's file")
    with pytest.raises(NotPermitted, match="no socket; fallow does not remove it"):
        SocketFile(str(tmp_path / "full" / "fallow.sock"), 1)
    with pytest.raises(FallowError, match="at most 107 bytes"):
        SocketFile(str(tmp_path / ("x" * 120)), 1)
