"""What a thousand who watch the page cost a newcomer: the time of a yield with them and without, in turns."""

import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from tests.standin import World

ROUNDS = 15
STREAMS = 1000
LIMIT = 1.5
CONFIG = """
[terminals]
users = "ignore"
[[filler]]
name = "work"
command = ["sh", "-c", "echo $$ > {pids}; exec sleep 1000"]
gpus = "0"
idle_for = "0s"
"""
# Opens the card as CUDA does, and waits until the filler is gone.
NEWCOMER = """
import os, select, sys, time
gone = os.pidfd_open(int(sys.argv[2]))
began = time.monotonic()
kept = [open(sys.argv[1]) for _ in range(5)]
select.select([gone], [], [], 30)
print(time.monotonic() - began)
"""


def yields(bin_folder: pathlib.Path, world: World, environ: Mapping[str, str]) -> bool:
    """Measure, print, and say whether the promise was kept."""
    folder = pathlib.Path(environ["FALLOW_CLAIM_DIR"])
    file, pids = folder / "yields.toml", folder / "pid"
    file.write_text(CONFIG.replace("{pids}", str(pids)))
    file.chmod(0o600)
    for card in world:
        card.compute, card.utilization = [], 0
    nodes = world.nodes(folder / "devices")
    places = {"FALLOW_STATE_DIR": f"{folder}/yields", "FALLOW_SOCKET": f"{folder}/run/fallow.sock"}
    words = [str(bin_folder / "fallow"), "up", "--config", str(file), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, env={**environ, **nodes, **places}, stderr=subprocess.PIPE, text=True) as up:
        assert up.stderr is not None
        address = next(line for line in up.stderr if "the page is at" in line).split("http://")[1].split("/")[0]
        threading.Thread(target=up.stderr.read, daemon=True).start()
        taken: dict[int, list[float]] = {0: [], STREAMS: []}
        for _ in range(3):
            for streams, times in taken.items():
                with _Crowd(address, streams):
                    times.extend(_one(f"{folder}/devices/nvidia0", pids) for _ in range(ROUNDS // 3))
        up.terminate()
    alone, crowded = (1000 * statistics.median(times) for times in taken.values())
    print(f"\na yield of fallow up, median of {ROUNDS}, in turns")
    print(f"  nobody watches the page {alone:.1f} ms, {STREAMS} do {crowded:.1f} ms: {crowded / alone:.2f} times")
    kept = crowded <= LIMIT * alone
    print(f"  promise: at most {LIMIT} times: {'kept' if kept else 'BROKEN'}")
    return kept


def _one(node: str, pids: pathlib.Path) -> float:
    while not (pids.exists() and pids.read_text().strip()):
        time.sleep(0.05)
    time.sleep(0.5)
    pid = pids.read_text().strip()
    pids.unlink()
    words = [sys.executable, "-c", NEWCOMER, node, pid]
    return float(json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))


class _Crowd:
    """So many who watch the page, and read what they are told."""

    def __init__(self, address: str, count: int) -> None:
        host, port = address.rsplit(":", 1)
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        for _ in range(count):
            connection = socket.create_connection((host, int(port)))
            connection.sendall(f"GET /stream HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> None:
        self._reader.start()
        time.sleep(1)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reader.join()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)

    def _read(self) -> None:
        while not self._over.wait(0.02):
            for key, _ in self._selector.select(0):
                os.read(key.fd, 65536)
