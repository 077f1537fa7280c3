"""Make stdout and stderr safe to write to, whatever their encoding and even if they are closed."""

import errno
import io
import os
import sys

from fallow.interfaces.render.stream import spell_out

_CANNOT_PRINT = (errno.EBADF, errno.ENOSPC, errno.EIO, errno.EFBIG)


class _Closed(io.TextIOBase):
    """Replaces a stdout that was closed before fallow started: writing to it fails."""

    def write(self, _text: str) -> int:
        """Raise the error of a closed descriptor."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def prepare() -> None:
    """Prepare the streams before the first output: no character and no closed stdout causes a crash."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    spell_out(sys.stdout, sys.stderr)


def is_closed() -> bool:
    """Return whether stdout was closed, so that no result can be printed."""
    return isinstance(sys.stdout, _Closed)


def flush() -> None:
    """Flush stdout now, while a failure can still change the exit code."""
    if not is_closed():
        sys.stdout.flush()


def throw_away() -> None:
    """Send the interpreter's last flush to /dev/null, because the reader of stdout has gone or the disk is full."""
    if not is_closed():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def cannot_print(error: OSError) -> bool:
    """Return whether printing failed."""
    return error.errno in _CANNOT_PRINT
