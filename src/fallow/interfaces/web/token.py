"""The tokens of the page: secrets in files that only their owner can read. Only their hashes are kept in memory."""

import os
import secrets
from collections.abc import Callable

from fallow.core.errors import FallowError
from fallow.readers.secret import read_token


def token_in(path: str, tell: Callable[[str], None]) -> str:
    """Return the token in the file; create one if the file does not exist, and report that with `tell`."""
    try:
        return read_token(path)
    except FileNotFoundError:
        return _made(path, tell)


def _made(path: str, tell: Callable[[str], None]) -> str:
    word = secrets.token_urlsafe(32)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(f"{word}\n")
            file.flush()
            os.fsync(fd)
    except OSError as error:
        raise FallowError(f"no token could be made in {path}: {error.strerror}") from None
    tell(f"there was no token for the page, so one was made; it is in {path}, and only you can read it")
    return word
