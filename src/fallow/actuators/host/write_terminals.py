"""The only file that writes to other people's terminals."""

import os
from collections.abc import Callable, Iterable

from fallow.core.units import printable

_FLAGS = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


def write_to(paths: Iterable[str], text: str, may_read: Callable[[int], bool] = lambda _: True) -> list[str]:
    """Write a line to each of these terminals; return those that took it.

    `may_read` decides by its owner, who may be another one than the record of logins says.
    """
    line = f"\r\nfallow: {printable(text)}\r\n".encode()
    return [path for path in dict.fromkeys(paths) if _took(path, line, may_read)]


def _took(path: str, line: bytes, may_read: Callable[[int], bool]) -> bool:
    """Write to a terminal without waiting: one without a reader would block."""
    try:
        with open(path, "wb", buffering=0, opener=lambda *_: os.open(path, _FLAGS)) as terminal:
            # A user who can write the record of logins must not choose what we write to.
            return terminal.isatty() and may_read(os.fstat(terminal.fileno()).st_uid) and bool(terminal.write(line))
    except OSError:
        return False
