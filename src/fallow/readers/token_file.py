"""Read a token of the page from a file that only its owner can read, and that nobody else can replace."""

import hashlib
import os
import stat

from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.shell_word import shell_word
from fallow.readers.file_trust import Trusted, doubts, open_trusted

_SHORTEST = 16
_LONGEST_BYTES = 4096


def hashed(token: str) -> bytes:
    """Return the hash by which a token is kept and compared."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def read_token(path: str) -> str:
    """Return the token in the file; raise FileNotFoundError if there is none, and FallowError for a bad one."""
    trusted = Trusted(frozenset({0, os.geteuid()}), "who can change it could choose the token")
    try:
        found: os.stat_result | None = os.stat(path)
    except OSError:
        found = None
    if found is not None and stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
        raise NotPermitted(f"others can read the token in {path}; make it yours alone: chmod 600 {shell_word(path)}")
    doubtful = doubts(path, trusted)
    if doubtful:
        raise NotPermitted(doubtful[0].sentence, doubtful[0].suggestion)
    if found is None:
        raise FileNotFoundError(path)
    if not stat.S_ISREG(found.st_mode):
        raise WrongUsage(f"{path} is no file; token_file names a file with a token in it")
    try:
        with os.fdopen(open_trusted(path, os.O_RDONLY, trusted), "rb") as file:
            word = file.read(_LONGEST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise NotPermitted(f"the token in {path} cannot be read: {error.strerror}") from None
    if len(word) < _SHORTEST or not word.isascii() or not word.isprintable() or " " in word:
        raise WrongUsage(f"the token in {path} must be one word of at least {_SHORTEST} letters, digits or signs")
    return word
