"""The token of the page: a secret in a file that only its owner can read."""

import hmac
import os
import secrets
import stat
from collections.abc import Callable

from fallow.core.errors import FallowError, NotPermitted, WrongUsage

_SHORTEST = 16
_LONGEST_BYTES = 4096


def token_in(path: str, tell: Callable[[str], None]) -> str:
    """Return the token in the file; create one if the file does not exist, and report that with `tell`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return _made(path, tell)
    except OSError as error:
        raise NotPermitted(f"the token in {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise WrongUsage(f"{path} is no file; token_file names a file with the page's token in it")
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if facts.st_uid not in (0, os.geteuid()):
            raise NotPermitted(f"the token in {path} belongs to somebody else; it must be yours")
        if facts.st_mode & 0o077:
            raise NotPermitted(f"others can read the token in {path}; make it yours alone: chmod 600 {path}")
        word = file.read(_LONGEST_BYTES).decode(errors="replace").strip()
    if len(word) < _SHORTEST or not word.isascii() or not word.isprintable() or " " in word:
        raise WrongUsage(f"the token in {path} must be one word of at least {_SHORTEST} letters, digits or signs")
    return word


def is_token(given: str, token: str) -> bool:
    """Return whether the token is right; the time taken reveals nothing about it."""
    return hmac.compare_digest(given.encode(), token.encode())


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
