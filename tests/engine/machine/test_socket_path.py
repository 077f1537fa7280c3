"""Where a daemon listens and is looked for, by who asks."""

import os

import pytest

from fallow.engine.machine.socket_path import own_socket, sockets_to_ask

MACHINES = "/run/fallow/fallow.sock"
KEPT = {"XDG_RUNTIME_DIR": "/run/user/1000"}
USERS = "/run/user/1000/fallow/fallow.sock"


def test_root_asks_no_users_daemon_whatever_folder_su_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (own_socket(KEPT), sockets_to_ask(KEPT)) == (MACHINES, [MACHINES])
    assert sockets_to_ask({**KEPT, "FALLOW_SOCKET": USERS}) == [USERS], "root has said so"


def test_a_user_asks_the_machines_daemon_before_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (own_socket(KEPT), sockets_to_ask(KEPT)) == (USERS, [MACHINES, USERS])
