"""`fallow up` with few descriptors, and with a page whose port somebody else has."""

import http.client
import os
import pathlib
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import BIN, LIMIT_S
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.more


class Up(Fill):
    """A `fallow up` whose log is read along, so that it never waits for us."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process)
        self._heard = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._heard:
                self.said.append(line.rstrip("\n"))
                self._heard.notify_all()

    def until(self, words: str, times: int = 1) -> str:
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.told(words)) >= times, LIMIT_S), self.said
        return self.told(words)[times - 1]

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(LIMIT_S)
        self._reading.join(LIMIT_S)
        return code


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    started: list[Up] = []
    yield started
    for each in started:
        each.process.kill()
        each.process.wait(LIMIT_S)
        each._reading.join(LIMIT_S)
        each.process.stderr.close()  # type: ignore[union-attr]


def start_up(simulated: Fallow, ups: list[Up], *words: str, files: tuple[int, int] | None = None) -> Up:
    """With so many descriptors at most: the soft and the hard limit."""

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, files)

    process = subprocess.Popen(
        [str(BIN / "fallow"), "up", *words],
        env=simulated.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,  # noqa: PLW1509  the child of a test, before any thread of it
    )
    ups.append(Up(process))
    return ups[-1]


def port_of(up: Up) -> int:
    return int(up.until("the page is at").split("127.0.0.1:")[1].split("/")[0])


def asked(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def looks(simulated: Fallow, port: int) -> bool:
    """Whether the loop of rules goes on: somebody has looked within the last seconds."""
    return asked(port, "/healthz") == 200


def test_the_soft_limit_is_raised_to_the_hard_one(simulated: Fallow, ups: list[Up]) -> None:
    """F35"""
    up = start_up(simulated, ups, "--listen", "127.0.0.1:0", files=(256, 2048))
    up.until("up, ")
    limits = pathlib.Path(f"/proc/{up.process.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5] == [
        "2048",
        "2048",
    ]


def test_the_loop_of_rules_outlives_a_time_without_descriptors_and_says_so_once(
    simulated: Fallow, ups: list[Up]
) -> None:
    """F35: EMFILE on /proc"""
    up = start_up(simulated, ups, "--listen", "127.0.0.1:0")
    port = port_of(up)
    up.until("up, ")
    used = 1 + max(map(int, os.listdir(f"/proc/{up.process.pid}/fd")))
    before = resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE, (min(8, used), before[1]))
    up.until("Too many open files")
    resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE, before)
    up.until("no failure any more")
    until(lambda: looks(simulated, port), pause_s=PROGRAM_S)
    assert up.end() == -15
    assert not up.told("Traceback"), up.said


@pytest.mark.parametrize("where", ["the config", "the command line"])
def test_a_port_that_somebody_has_is_an_error_and_a_reload_opens_the_page_when_it_is_free(
    simulated: Fallow, ups: list[Up], tmp_path: pathlib.Path, where: str
) -> None:
    """F39, and Weak: somebody else listens on the page's port first"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = tmp_path / "fallow.toml"
        config.write_text(f"[page]\nlisten = '127.0.0.1:{port}'\n" if where == "the config" else "")
        config.chmod(0o600)
        words = () if where == "the config" else ("--listen", f"127.0.0.1:{port}")
        up = start_up(simulated, ups, "--config", str(config), "--log-format", "json", *words)
        said = up.until("another program listens on")
        assert '"level": "error"' in said
        assert "give no token" in said
        up.until("up, ")
        up.process.send_signal(1)
        up.until("another program listens on", times=2)
    up.process.send_signal(1)
    up.until("the page is at")
    until_s = time.monotonic() + LIMIT_S
    while True:
        with suppress(ConnectionRefusedError):
            if asked(port, "/healthz") == 200:
                break
        assert time.monotonic() < until_s


def test_what_changes_under_page_counts_from_the_next_reload(
    simulated: Fallow, ups: list[Up], tmp_path: pathlib.Path
) -> None:
    """F39"""
    config = tmp_path / "fallow.toml"
    config.write_text("[page]\nlisten = '127.0.0.1:0'\n")
    config.chmod(0o600)
    up = start_up(simulated, ups, "--config", str(config))
    first = port_of(up)
    up.until("up, ")
    up.process.send_signal(1)
    up.until("config reloaded (reload 1)")
    assert asked(first, "/healthz") == 200, "nothing has changed, and who watches goes on watching"
    config.write_text(f"[page]\nlisten = '127.0.0.1:0'\nhosts = 'gpu.example'\ntoken_file = '{tmp_path / 'token'}'\n")
    up.process.send_signal(1)
    second = int(up.until("the page is at", times=2).split("127.0.0.1:")[1].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", second, timeout=LIMIT_S)
    connection.request("GET", "/healthz", headers={"host": "gpu.example"})
    assert connection.getresponse().status == 200
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        asked(first, "/healthz")
    config.write_text("[page]\nenabled = false\n")
    up.process.send_signal(1)
    up.until("config reloaded (reload 3)")
    until_s = time.monotonic() + LIMIT_S
    with suppress(ConnectionError, http.client.HTTPException):
        while asked(second, "/healthz"):
            assert time.monotonic() < until_s
    with pytest.raises(ConnectionRefusedError):
        asked(second, "/healthz")
