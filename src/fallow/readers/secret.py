"""Read tokens from files that hold one word. That of the page must be in a file of ours that nobody else can read."""

import hashlib
import os
from typing import BinaryIO

from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.shell_word import shell_word
from fallow.readers.file_trust import open_trusted

_SHORTEST = 16
_LONGEST_BYTES = 16 << 10


def hashed(token: str) -> bytes:
    """Return the hash by which a token is kept and compared."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def read_secret(path: str) -> str:
    """Return the word in a file; raise OSError or ValueError if there is none."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        return _word_in(file)


def read_token(path: str) -> str:
    """Return the token of the page; raise FileNotFoundError if there is none, and FallowError for a bad one."""
    try:
        with open(open_trusted(path, os.O_RDONLY, frozenset({0, os.geteuid()})), "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                way = f"make it yours alone: chmod 600 {shell_word(path)}"
                raise NotPermitted(f"others can read the token in {path}", way)
            word = _word_in(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise WrongUsage(f"the token in {path} cannot be read: {why}") from None
    if len(word) < _SHORTEST:
        raise WrongUsage(f"the token in {path} must be one word of at least {_SHORTEST} letters, digits or signs")
    return word


def _word_in(file: BinaryIO) -> str:
    word = file.read(_LONGEST_BYTES).decode(errors="replace").strip()
    if not word.isascii() or not word.isprintable() or not word or " " in word:
        raise ValueError("it must be one word")
    return word
