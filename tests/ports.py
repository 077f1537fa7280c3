"""Ports for programs of tests."""

import pathlib
import random
import socket
from contextlib import suppress

_PORTS = range(10_000, 32_000)
"""Below those that the kernel gives to connections, so that none of these takes one before its program does."""


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on now."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [] if port in found else [port]
    return found


def with_a_free_port(*words: str) -> tuple[str, ...]:
    """Give the page of a daemon a port of its own unless the test chooses one: others may run on this machine."""
    chosen = any(word in ("--listen", "--reload") or _has_page(word) for word in words)
    return words if chosen or words[:1] != ("up",) else ("up", "--listen", "127.0.0.1:0", *words[1:])


def _has_page(word: str) -> bool:
    """Return whether a word is a config file that says where the page is."""
    try:
        return word.endswith(".toml") and "[page" in pathlib.Path(word).read_text(errors="replace")
    except OSError:
        return False
