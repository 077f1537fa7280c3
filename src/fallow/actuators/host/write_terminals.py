"""The only file that writes to other people's terminals."""

import os
from collections.abc import Callable, Iterable

from fallow.core.units import printable


def write_to(paths: Iterable[str], text: str, may_read: Callable[[int], bool] = lambda _: True) -> list[str]:
    """Write a line to each of these terminals; return those that took it.

    `may_read` decides by its owner, who may be another one than the record of logins says.
    """
    line = f"\r\nfallow: {printable(text)}\r\n".encode()
    return [path for path in dict.fromkeys(paths) if _write(path, line, may_read)]


def _write(path: str, line: bytes, may_read: Callable[[int], bool]) -> bool:
    """Write to a terminal without waiting: one without a reader would block."""
    try:
        terminal = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.isatty(terminal):  # a user who can write the record of logins must not choose what we write to
            return False
        if not may_read(os.fstat(terminal).st_uid):
            return False
        os.write(terminal, line)
    except OSError:
        return False
    finally:
        os.close(terminal)
    return True
