"""Open the file that a filler's output goes to, as the user whom the filler runs as."""

import os
import stat

from fallow.core.errors import CannotRun
from fallow.readers.file_trust import Followed, Trusted

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def open_log(path: str, trusted: Trusted | None) -> int:
    """Open the log for appending. With `trusted`, refuse a path where another user could have put a link or file."""
    try:
        log = _open(path) if trusted is None else _open_trusted(path, trusted)
    except OSError as error:
        raise CannotRun(f"the log {path} cannot be written: {error.strerror or error}") from None
    os.set_blocking(log, True)
    return log


def _open(path: str) -> int:
    # Without O_NONBLOCK, opening a pipe that no process reads would wait for ever.
    return os.open(path, _FLAGS | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)


def _open_trusted(path: str, trusted: Trusted) -> int:
    with Followed(path, trusted) as followed:
        if followed.doubts:
            raise CannotRun(f"the log {path} is not to be trusted: {followed.doubts[0].sentence}")
        log = followed.open(_FLAGS, 0o644)
    if stat.S_ISREG(os.fstat(log).st_mode) and os.fstat(log).st_nlink > 1:
        os.close(log)
        raise CannotRun(f"the log {path} has other hard links, and may be another file of its owner")
    return log


def outputs_are_pipes() -> bool:
    """Return whether stdout and stderr are pipes or sockets; root's terminal must not go to other users."""
    try:
        modes = [os.fstat(fd).st_mode for fd in (1, 2)]
    except OSError:
        return False
    return all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)
