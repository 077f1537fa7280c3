"""Promise 6: bad input gets one sentence, no traceback and no hang."""

import contextlib
import os
import pathlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.places import BIN, LIMIT_S
from tests.security.machine import ADA, BOB, Machine

pytestmark = pytest.mark.as_root
MIB = 2**20
NONSENSE = {
    "nothing": b"",
    "bytes": bytes(range(256)),
    "deep": b"[" * 100_000,
    "number": b"9" * 5_000,
    "long": b"x" * (2 * MIB),
}
FURTHER_WORDS = ("\udcff\udcfe", "9" * 5_000, "-", "gpu:\n", "٣")
EVERY_NONSENSE = pytest.mark.parametrize("content", NONSENSE.values(), ids=NONSENSE)


def in_one_sentence(done: "subprocess.CompletedProcess[str]", *codes: int) -> None:
    """Check that a command was refused in one line, which begins as those of fallow do."""
    assert done.returncode in codes, done.stderr[-1000:]
    assert done.stderr.startswith("fallow: ")
    assert done.stderr.count("\n") == 1, done.stderr[-1000:]
    assert "Traceback" not in done.stderr


def up(machine: Machine, config: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    process = machine.start(0, str(BIN / "fallow"), "up", "--config", str(config), "--listen", "127.0.0.1:0")
    _, err = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess([], process.returncode, "", err)


@EVERY_NONSENSE
def test_a_config_that_is_nonsense_is_refused(machine: Machine, content: bytes) -> None:
    config = machine.home(0) / "fallow.toml"
    config.write_bytes(b"x = " + content)
    config.chmod(0o600)
    done = up(machine, config)
    assert done.returncode == 78, done.stderr[-1000:]
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 2000


def test_a_pipe_or_a_device_in_place_of_a_config_is_refused(machine: Machine) -> None:
    pipe = machine.home(0) / "pipe"
    os.mkfifo(pipe, 0o600)
    for config in (pipe, pathlib.Path("/dev/zero"), machine.home(0)):
        done = up(machine, config)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "word", ["\x1b[2J", "x" * 100_000, *(pytest.param(word, marks=pytest.mark.more) for word in FURTHER_WORDS)]
)
def test_words_of_a_command_that_are_nonsense_are_refused(machine: Machine, word: str) -> None:
    for command in ("stop", "status"):
        done = machine.fallow(ADA, command, word)
        in_one_sentence(done, 1, 2, 77)
        assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "content", [NONSENSE["bytes"], pytest.param(NONSENSE["deep"], marks=pytest.mark.more)], ids=["bytes", "deep"]
)
def test_files_of_another_user_in_the_claim_folder_keep_nobody_from_claiming_looking_and_stopping(
    machine: Machine, content: bytes
) -> None:
    assert machine.fallow(ADA, "pick").returncode == 0
    assert machine.fallow(BOB, "protect", "0", "--for", "1h").returncode == 0
    for path in machine.claims.iterdir():
        if path.is_file():
            path.write_bytes(content)
    job = machine.job(ADA, 1)
    daemon = machine.up()
    for words in (("status",), ("why", "0"), ("protect", "--list"), ("run", "--gpus", "2", "--", "true")):
        done = machine.fallow(ADA, *words)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 75), (words, done.stderr)
    assert job.poll() is None
    assert daemon.process.poll() is None


@contextlib.contextmanager
def instead_of_a_daemon(path: pathlib.Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """Listen in the place of root's daemon, and answer everybody in this way."""
    path.parent.mkdir(mode=0o755)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o777)
    server.listen()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, contextlib.suppress(OSError):
                    answer(client)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(LIMIT_S)


def with_nonsense(client: socket.socket) -> None:
    client.recv(4096)
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + bytes(range(256)))


def without_end(client: socket.socket) -> None:
    client.recv(4096)
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while True:
        client.sendall(b'{"gpus": [' * 10_000)


def never(client: socket.socket) -> None:
    while client.recv(4096):
        pass


@pytest.mark.parametrize("answer", [with_nonsense, never, pytest.param(without_end, marks=pytest.mark.more)])
def test_what_answers_in_the_place_of_the_daemon_keeps_nobody_waiting(
    machine: Machine, answer: Callable[[socket.socket], None]
) -> None:
    machine.environ["FALLOW_DAEMON_TIMEOUT"] = "1s"
    with instead_of_a_daemon(pathlib.Path(machine.environ["FALLOW_SOCKET"]), answer):
        done = machine.fallow(0, "status", "--json")
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr
