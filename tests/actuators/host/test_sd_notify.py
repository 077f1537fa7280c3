"""What the daemon says to systemd, heard on a real socket."""

import os
import pathlib
import socket
from collections.abc import Iterator

import pytest

from fallow.actuators.host.sd_notify import ServiceManager
from tests.places import LIMIT_S


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[tuple[str, socket.socket]]:
    """The address as NOTIFY_SOCKET has it, and the socket of whoever listens there."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.settimeout(LIMIT_S)
    if request.param == "path":
        address = str(tmp_path / "notify")
        listening.bind(address)
    else:
        address = f"@fallow-test-{os.getpid()}"
        listening.bind(f"\0{address[1:]}")
    yield address, listening
    listening.close()


def test_it_says_ready_reloading_alive_and_stopping_as_sd_notify_has_it(heard: tuple[str, socket.socket]) -> None:
    address, listening = heard
    manager = ServiceManager({"NOTIFY_SOCKET": address})
    manager.ready("8 GPUs")
    assert listening.recv(4096) == b"READY=1\nSTATUS=8 GPUs"
    manager.reloading(1234.5678)
    assert listening.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=1234567800"
    manager.alive()
    assert listening.recv(4096) == b"WATCHDOG=1"
    manager.stopping()
    assert listening.recv(4096) == b"STOPPING=1\nSTATUS=ending"
    manager.close()


def test_a_status_is_sent_once_and_stays_one_line_and_nobody_waits_for_the_manager(
    heard: tuple[str, socket.socket],
) -> None:
    address, listening = heard
    manager = ServiceManager({"NOTIFY_SOCKET": address})
    for status in ("7 free", "7 free", "6 free\nREADY=0", "6 free\nREADY=0"):
        manager.status(status)
    for _ in range(10_000):  # far more than its queue holds
        manager.alive()
    assert [listening.recv(4096) for _ in range(3)] == [b"STATUS=7 free", b"STATUS=6 free READY=0", b"WATCHDOG=1"]
    listening.close()
    manager.alive()
    manager.close()


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket", "vsock:2:1"])
def test_nothing_happens_where_no_manager_can_be_told(
    address: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind("relative")
        manager = ServiceManager({"NOTIFY_SOCKET": address} if address else {})
        manager.ready("up")
        with pytest.raises(BlockingIOError):
            listening.recv(1)
        manager.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid() + 1)}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdog_is_ours_only_if_it_names_us(environ: dict[str, str], seconds: float | None) -> None:
    assert ServiceManager(environ).watchdog_s == seconds
