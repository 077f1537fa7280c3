"""The connections of the socket are shared by user, and a socket that was deleted comes back."""

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from starlette.responses import PlainTextResponse

from fallow.interfaces.socket.server import serve
from fallow.interfaces.web.connection_limit import ConnectionLimits
from tests.actuators.claims.test_users import ADA, BOB
from tests.places import LIMIT_S

pytestmark = pytest.mark.more

FLOOD = """
import os, socket, sys
os.setgroups([])
os.setresgid(*3 * [int(sys.argv[3])])
os.setresuid(*3 * [int(sys.argv[3])])
kept = []
for _ in range(int(sys.argv[2])):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    try:
        connection.connect(sys.argv[1])
    except OSError:
        pass
    kept.append(connection)
print("flooded", flush=True)
sys.stdin.read()
"""


@contextmanager
def served(
    path: pathlib.Path, limits: ConnectionLimits, told: Callable[[str], None] = print, look_again_s: float = 5.0
) -> Iterator[None]:
    """A socket that says hello to whoever is let in."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    task = loop.create_task(serve(str(path), PlainTextResponse("hello"), ready.set, told, limits, look_again_s))

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(LIMIT_S)
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(LIMIT_S)
        assert not thread.is_alive()


@contextmanager
def flood(path: pathlib.Path, uid: int, count: int) -> Iterator[None]:
    """So many connections of a user that say nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(path), str(count), str(uid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "flooded\n"
            yield
        finally:
            process.kill()


def is_answered(path: pathlib.Path) -> bool:
    """Whether a question of ours gets any answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LIMIT_S)
        connection.connect(str(path))
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
        except (BrokenPipeError, ConnectionResetError):
            return False


@pytest.mark.as_root
def test_a_flood_of_some_users_leaves_a_place_for_another(open_folder: pathlib.Path) -> None:
    """Weak: a flood of connections to the socket shuts other users out."""
    path = open_folder / "run" / "fallow.sock"
    patient = ConnectionLimits(connections=16, of_user=10, request_s=LIMIT_S)
    with served(path, patient), flood(path, ADA, 300), flood(path, BOB, 300):
        assert all(is_answered(path) for _ in range(20)), "all places were theirs, and some are given up"


@pytest.mark.as_root
def test_root_is_answered_though_others_have_all_places(open_folder: pathlib.Path) -> None:
    path = open_folder / "run" / "fallow.sock"
    patient = ConnectionLimits(connections=2, of_user=2, request_s=LIMIT_S)
    with served(path, patient), flood(path, ADA, 1), flood(path, BOB, 1):
        assert is_answered(path)


def test_a_socket_that_somebody_deletes_is_made_again_and_that_is_said(tmp_path: pathlib.Path) -> None:
    path, told = tmp_path / "run" / "fallow.sock", []
    said = threading.Event()

    def tell(sentence: str) -> None:
        told.append(sentence)
        said.set()

    with served(path, ConnectionLimits(connections=8, of_user=8), tell, look_again_s=0.02):
        assert is_answered(path)
        os.unlink(path)
        assert said.wait(LIMIT_S)
        until = threading.Event()
        while not path.exists():
            assert not until.wait(0.005)
        assert is_answered(path)
    assert told == [f"{path} was deleted; it is made again"]
    assert not path.exists()
