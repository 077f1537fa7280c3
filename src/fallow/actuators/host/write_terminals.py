"""The only file that writes to the terminals of people."""

import os
from collections.abc import Iterable

from fallow.core.units import printable


def write_to(paths: Iterable[str], text: str) -> list[str]:
    """Write a line to each of these terminals; those that took it."""
    line = f"\r\nfallow: {printable(text)}\r\n".encode()
    return [path for path in dict.fromkeys(paths) if _write(path, line)]


def _write(path: str, line: bytes) -> bool:
    """Write to a terminal without ever waiting for it: one whose reader has gone would block for ever."""
    try:
        terminal = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.isatty(terminal):  # whoever can write the record of logins must not choose what we write to
            return False
        os.write(terminal, line)
    except OSError:
        return False
    finally:
        os.close(terminal)
    return True
