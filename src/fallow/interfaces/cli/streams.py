"""Make stdout and stderr safe to write to, whatever their encoding and even if they are closed."""

import errno
import io
import os
import sys

from fallow.interfaces.render.stream import spell_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer


class CannotPrint(OSError):
    """What was written to stdout did not get there, because it is closed or the disk is full."""


class _Closed(io.TextIOBase):
    """Replaces a stdout that was closed before fallow started: writing to it fails."""

    def write(self, _text: str) -> int:
        """Raise the error of a closed descriptor."""
        raise CannotPrint(errno.EBADF, os.strerror(errno.EBADF))


class _Stdout(io.FileIO):
    """The file below stdout: its errors can be told from those of all other files."""

    def write(self, data: "Buffer", /) -> int | None:  # type: ignore[override]  # None if it would block
        """Write, or raise CannotPrint; BrokenPipeError stays."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CannotPrint(error.errno, error.strerror) from None


def prepare() -> None:
    """Prepare the streams before the first output: no character and no closed stdout causes a crash."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    elif type(sys.stdout) is io.TextIOWrapper:
        given = sys.stdout
        file = _Stdout(given.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            file if given.write_through else io.BufferedWriter(file),
            given.encoding,
            given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )
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
