"""Where a daemon listens and is looked for, by who asks."""

import os
import pathlib
import socket
import threading

import pytest

from fallow.engine.client.socket_path import own_socket, sockets_to_ask
from fallow.engine.client.unix_http import ask
from fallow.engine.machine.clock import SystemClock

MACHINES = "/run/fallow/fallow.sock"
KEPT = {"XDG_RUNTIME_DIR": "/run/user/1000"}
USERS = "/run/user/1000/fallow/fallow.sock"


@pytest.mark.parametrize("path", ["x.sock", "./x.sock"])
def test_a_socket_in_the_folder_of_who_asks_needs_no_slash(
    path: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x.sock")
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"here": true}')

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        assert ask([path], SystemClock(), "GET", "/", {}) == (200, {"here": True})
        answering.join()


def test_root_asks_no_users_daemon_whatever_folder_su_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (own_socket(KEPT), sockets_to_ask(KEPT)) == (MACHINES, [MACHINES])
    assert sockets_to_ask({**KEPT, "FALLOW_SOCKET": USERS}) == [USERS], "root has said so"


def test_a_user_asks_the_machines_daemon_before_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (own_socket(KEPT), sockets_to_ask(KEPT)) == (USERS, [MACHINES, USERS])
