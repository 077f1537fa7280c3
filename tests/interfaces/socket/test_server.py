"""The desk: whoever asks too much, too slowly or nonsense costs nobody but themselves."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from fallow.actuators.host.unix_socket import SocketFile, SocketTaken
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.wire import VERSION
from tests.actuators.claims.test_users import ADA, Users
from tests.conftest import Fallow
from tests.engine.history.life import life
from tests.engine.history.test_history import record
from tests.interfaces.socket.conftest import Start

pytestmark = pytest.mark.usefixtures("daemon")
MOST_OF_USER = 16


@pytest.fixture
def path(simulated: Fallow) -> str:
    return simulated.environ["FALLOW_SOCKET"]


@contextmanager
def connected(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        yield connection


def everything(connection: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            said += chunk
    return said


def ask(path: str, **words: object) -> dict[str, Any]:
    with connected(path) as connection:
        request = {"v": VERSION, "simulate": "4xH100", **words}
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(everything(connection))
        return answer


def answers(path: str) -> bool:
    return "ok" in ask(path, ask="status")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[" * 60_000 + b"\n",
        b'{"ask": ' + b"9" * 50_000 + b"}\n",
        b"null\n",
        b"\xff\xfe\n",
        b'{"ask": "status"}\n',
        b'{"ask": {}}\n',
    ],
    ids=["empty", "words", "deep", "long number", "null", "no text", "no version", "no question"],
)
def test_nonsense_is_answered_with_a_sentence(path: str, line: bytes) -> None:
    with connected(path) as connection:
        connection.sendall(line)
        refusal = json.loads(everything(connection))
    assert refusal["no"]["why"]
    assert answers(path)


@pytest.mark.parametrize(
    "words",
    [
        {"ask": "run", "command": ["true"]},
        {"ask": "shutdown"},
        {"ask": "why", "key": 5, "most": 1},
        {"ask": "why", "key": None, "most": 10**9},
        {"ask": "why", "key": None, "most": True},
        {"ask": "why", "key": "\ud800", "most": 1},
        {"ask": "protect", "target": "gpu:\ud800", "until": 2e9, "why": ""},
        {"ask": "protect", "target": "all", "until": 2e9, "why": "\udfff"},
        {"ask": "protect", "target": "all", "until": 1e18, "why": ""},
        {"ask": "protect", "target": "all", "until": float("nan"), "why": ""},
        {"ask": "protect", "target": "all", "until": "soon", "why": ""},
        {"ask": "protect", "target": "everything", "until": 2e9, "why": ""},
        {"ask": "protect", "target": "all", "until": 2e9, "why": "x" * 5000},
        {"ask": "protect", "target": "pid:1@1", "until": 2e9, "why": ""},
        {"ask": "release", "id": -1},
        {"ask": "release", "id": "../passwd"},
        {"ask": "status", "simulate": ["4xH100"]},
        {"ask": "status", "simulate": "x" * 60_000},
    ],
    ids=lambda words: str(words)[:60],
)
def test_what_is_not_possible_is_refused(path: str, words: dict[str, object]) -> None:
    refusal = ask(path, **words)
    assert refusal["no"]["why"], refusal
    assert "mistake" not in refusal["no"]["why"]
    assert ask(path, ask="protections")["ok"] == []


@pytest.mark.parametrize("edges", [None, [], [1], [2, 1], [1, 1], [[1], 2], ["a", 1], [0.5, 2], [-1, 2], [1, 10**30]])
def test_days_that_make_no_sense_are_refused(
    simulated: Fallow, start_daemon: Start, tmp_path: pathlib.Path, edges: object
) -> None:
    record(tmp_path / "kept", *life(0.001, cards=1))
    own = {"FALLOW_STATE_DIR": str(tmp_path / "kept"), "FALLOW_SOCKET": str(tmp_path / "other" / "fallow.sock")}
    start_daemon({**simulated.environ, **own})
    assert ask(own["FALLOW_SOCKET"], ask="tallies", edges=edges)["no"]["kind"] == "usage"


def test_where_there_is_no_history_it_is_empty(path: str) -> None:
    assert ask(path, ask="tallies", edges=[1, 2])["ok"] == []


def test_a_line_without_an_end_ends_the_connection(path: str) -> None:
    with connected(path) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(200):
                connection.sendall(b"x" * 65536)
        assert everything(connection) == b""
    assert answers(path)


def test_who_says_nothing_is_let_go(path: str) -> None:
    with connected(path) as connection:
        assert everything(connection) == b"", "closed by the desk after its time for a question"


def test_who_never_reads_keeps_nobody_from_an_answer(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        lazy.connect(path)
        lazy.sendall(json.dumps({"v": VERSION, "simulate": "4xH100", "ask": "status"}).encode() + b"\n")
        assert answers(path)


@pytest.mark.several_users
def test_a_user_has_some_connections_and_others_have_theirs(open_folder: pathlib.Path, start_daemon: Start) -> None:
    users = Users(open_folder)
    users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    start_daemon(users.environ)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(MOST_OF_USER + 4)]
    try:
        for connection in idle:
            connection.connect(users.environ["FALLOW_SOCKET"])
        assert everything(idle[-1]) == b"", "one too many is closed at once"
        code, out, _ = users.run(ADA, "status", "--json")
        assert code == 0
        assert json.loads(out)["gpus"][0]["for_s"] is not None, "ada is answered all the same"
    finally:
        for connection in idle:
            connection.close()


def test_who_floods_it_waits_and_the_daemon_has_time(path: str) -> None:
    """Forty asks a second and no more, however many threads ask; on a busy machine some are given up."""
    import time

    began = time.monotonic()
    done = []

    def flood() -> None:
        for _ in range(12):
            with suppress(OSError, ValueError):
                done.append(answers(path))

    threads = [threading.Thread(target=flood) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began
    assert sum(done) > 80
    assert took_s > (sum(done) - 60) / 40, "the first forty at once, and some in the middle of a second"
    assert answers(path)


def test_it_says_who_it_is_to_whoever_asks(path: str) -> None:
    hello = ask(path, ask="hello")["ok"]
    assert hello["simulated"] == "4xH100"
    assert hello["speaks"] == VERSION
    assert hello["looked_s_ago"] < 30


def test_everybody_may_connect_and_nobody_else_may_change_the_folder(path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) & 0o022 == 0


def test_the_socket_of_a_living_daemon_is_never_replaced(path: str) -> None:
    before = os.stat(path).st_ino
    with pytest.raises(SocketTaken, match="another fallow listens"):
        SocketFile(path, 1)
    assert os.stat(path).st_ino == before
    assert answers(path)


def test_the_socket_of_a_daemon_that_was_killed_is_replaced(
    path: str, simulated: Fallow, daemon: subprocess.Popen[str], start_daemon: Start
) -> None:
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
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


def test_a_socket_that_is_closed_leaves_no_socket_behind(tmp_path: pathlib.Path) -> None:
    file = SocketFile(str(tmp_path / "own" / "fallow.sock"), 1)
    file.close()
    assert [each.name for each in (tmp_path / "own").iterdir()] == ["fallow.sock.lock"]


def test_there_is_no_socket_where_others_could_change_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    with pytest.raises(NotPermitted, match="others may write"):
        SocketFile(str(tmp_path / "sticky" / "fallow.sock"), 1)
    for name, mode in (("open", 0o777), ("group", 0o770)):  # ours, so we shut them
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
        SocketFile(str(tmp_path / name / "fallow.sock"), 1).close()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o755
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(NotPermitted, match="Not a directory"):
        SocketFile(str(tmp_path / "link" / "fallow.sock"), 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "fallow.sock").write_text("somebody's file")
    with pytest.raises(NotPermitted, match="no socket; fallow does not remove it"):
        SocketFile(str(tmp_path / "full" / "fallow.sock"), 1)
    with pytest.raises(FallowError, match="at most 107 bytes"):
        SocketFile(str(tmp_path / ("x" * 120)), 1)


@pytest.mark.several_users
def test_the_holds_of_one_user_through_the_desk_are_counted(open_folder: pathlib.Path, start_daemon: Start) -> None:
    users = Users(open_folder)
    environ = {**users.environ, "FALLOW_STATE_DIR": str(open_folder / "state")}
    start_daemon(environ)
    claims = open_folder / "claims"
    for number in range(1, 51):
        file = claims / f"protection-{number}"
        file.write_text(json.dumps({"target": "all", "until": 3e9, "why": ""}))
        os.chown(file, ADA, ADA)
    users.environ["FALLOW_STATE_DIR"] = str(open_folder)
    code, _, err = users.run(ADA, "protect", "--for", "1h")
    assert code == 2
    assert "has 50 protections" in err
