"""Open the file that a filler's output goes to, as the user whom the filler runs as."""

import os
import stat

from fallow.core.errors import CannotRun, NotPermitted
from fallow.readers.file_trust import open_trusted

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def open_log(path: str, *, for_root: bool = False) -> int:
    """Open the log for appending. `for_root`: refuse a path where another user could have put a link or file."""
    try:
        log = open_trusted(path, _FLAGS, mode=0o644) if for_root else _open(path)
    except NotPermitted as doubt:
        raise CannotRun(f"the log {path} is not to be trusted: {doubt.sentence}") from None
    except OSError as error:
        raise CannotRun(f"the log {path} cannot be written: {error.strerror or error}") from None
    os.set_blocking(log, True)
    return log


def _open(path: str) -> int:
    # Without O_NONBLOCK, opening a pipe that no process reads would wait for ever.
    return os.open(path, _FLAGS | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)


def outputs_are_pipes() -> bool:
    """Return whether stdout and stderr are pipes or sockets; root's terminal must not go to other users."""
    try:
        modes = [os.fstat(fd).st_mode for fd in (1, 2)]
    except OSError:
        return False
    return all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)
