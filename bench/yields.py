"""What those who watch the page cost a newcomer: the time of a yield with them and without, in turns."""

import os
import pathlib
import pwd
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time

from bench.machine import FALLOW, machine, promise

ROUNDS = 15
STREAMS = 20
LIMIT = 1.5
COMES_WITHIN_S = 20.0
CONFIG = """
[terminals]
users = "ignore"
[[filler]]
name = "work"
command = ["sh", "-c", "echo $$ > {pids}; exec sleep 1000"]
user = "{user}"
gpus = "0"
idle_for = "0s"
"""
# Opens the card as CUDA does, and waits until the filler is gone.
NEWCOMER = """
import os, select, sys, time
gone = os.pidfd_open(int(sys.argv[2]))
began = time.monotonic()
kept = [open(sys.argv[1]) for _ in range(5)]
assert select.select([gone], [], [], 10)[0], "the filler stays"
print(time.monotonic() - began)
"""


def main() -> bool:
    """Measure, print, and say whether the promise was kept."""
    with machine() as here:
        file, pids = here.folder / "yields.toml", here.folder / "pid"
        user = pwd.getpwuid(os.geteuid()).pw_name
        file.write_text(CONFIG.replace("{pids}", str(pids)).replace("{user}", user))
        file.chmod(0o600)
        here.give_nodes()
        words = [FALLOW, "up", "--config", str(file), "--listen", "127.0.0.1:0"]
        log = here.folder / "log"
        with log.open("w") as said, subprocess.Popen(words, env=here.environ, stderr=said) as up:
            address = _address(log)
            taken: dict[int, list[float]] = {0: [], STREAMS: []}
            for _ in range(3):
                for streams, times in taken.items():
                    with _Crowd(address, streams):
                        node = f"{here.folder}/devices/nvidia0"
                        times.extend(_one(node, pids) for _ in range(ROUNDS // 3))
            up.terminate()
    alone, crowded = (1000 * statistics.median(times) for times in taken.values())
    print(f"a yield of fallow up, median of {ROUNDS}, in turns")
    print(f"  nobody watches the page {alone:.1f} ms, {STREAMS} do {crowded:.1f} ms: {crowded / alone:.2f} times")
    return promise(f"at most {LIMIT} times", kept=crowded <= LIMIT * alone)


def _address(log: pathlib.Path) -> str:
    """Where the page is, once the daemon has said so."""
    until_s = time.monotonic() + COMES_WITHIN_S
    while "the page is at http://" not in log.read_text():
        if time.monotonic() > until_s:
            raise RuntimeError(f"the daemon has no page: {log.read_text()}")
        time.sleep(0.05)
    return log.read_text().split("the page is at http://")[1].split("/")[0]


def _one(node: str, pids: pathlib.Path) -> float:
    until_s = time.monotonic() + COMES_WITHIN_S
    while not (pids.exists() and pids.read_text().strip()):
        if time.monotonic() > until_s:
            raise RuntimeError("the filler does not come back")
        time.sleep(0.05)
    time.sleep(0.5)
    pid = pids.read_text().strip()
    pids.unlink()
    words = [sys.executable, "-c", NEWCOMER, node, pid]
    return float(subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout)


class _Crowd:
    """So many who watch the page, and read what they are told."""

    def __init__(self, address: str, count: int) -> None:
        host, port = address.rsplit(":", 1)
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._connections: list[socket.socket] = []
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=10)
            connection.sendall(f"GET /stream HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._connections.append(connection)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> None:
        self._reader.start()
        time.sleep(1)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reader.join()
        self._selector.close()
        for connection in self._connections:
            connection.close()

    def _read(self) -> None:
        while not self._over.wait(0.02):
            for key, _ in self._selector.select(0):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                try:
                    told = connection.recv(65536)
                except OSError:
                    told = b""
                if not told:  # it was sent away
                    self._selector.unregister(connection)
