"""Read a token of the page from a file that only its owner can read."""

import os
import stat

from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.shell_word import shell_word

_SHORTEST = 16
_LONGEST_BYTES = 4096


def read_token(path: str) -> str:
    """Return the token in the file; raise FileNotFoundError if there is none, and FallowError for a bad one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotPermitted(f"the token in {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise WrongUsage(f"{path} is no file; token_file names a file with a token in it")
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if facts.st_uid not in (0, os.geteuid()):
            raise NotPermitted(f"the token in {path} belongs to somebody else; it must be yours")
        if facts.st_mode & 0o077:
            raise NotPermitted(
                f"others can read the token in {path}; make it yours alone: chmod 600 {shell_word(path)}"
            )
        word = file.read(_LONGEST_BYTES).decode(errors="replace").strip()
    if len(word) < _SHORTEST or not word.isascii() or not word.isprintable() or " " in word:
        raise WrongUsage(f"the token in {path} must be one word of at least {_SHORTEST} letters, digits or signs")
    return word
