"""A job that works until it is told to rest, and then holds its GPU for nothing."""

import sys
import threading

resting = threading.Event()


def listen() -> None:
    sys.stdin.readline()
    resting.set()


threading.Thread(target=listen, daemon=True).start()
while not resting.is_set():
    sum(range(10_000))
threading.Event().wait()
