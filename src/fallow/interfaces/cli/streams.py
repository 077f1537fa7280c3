"""stdout and stderr as a person gave them to us, made safe to write to."""

import errno
import io
import os
import sys

from fallow.interfaces.render.ascii import spell_out

_CANNOT_PRINT = (errno.EBADF, errno.ENOSPC, errno.EIO, errno.EFBIG)


class _Closed(io.TextIOBase):
    """In place of a stdout that was closed before we began: whoever has a result to print fails, and nobody else."""

    def write(self, _text: str) -> int:
        """Say that it is lost, as a closed descriptor would."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def prepare() -> None:
    """Once, before the first word: no letter ends us, and a result that nobody can get is no success."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    spell_out(sys.stdout, sys.stderr)


def is_closed() -> bool:
    """Whether nobody can get a result from us."""
    return isinstance(sys.stdout, _Closed)


def flush() -> None:
    """Let what was printed arrive, or fail now while there is an exit code for it."""
    if not is_closed():
        sys.stdout.flush()


def throw_away() -> None:
    """Whoever read our output has left, or it is full; let the interpreter's last flush go nowhere."""
    if not is_closed():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def cannot_print(error: OSError) -> bool:
    """Whether it was the printing that failed."""
    return error.errno in _CANNOT_PRINT
