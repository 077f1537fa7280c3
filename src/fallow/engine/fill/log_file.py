"""The file that a filler's output goes to, opened as whoever the filler is."""

import os
import stat

from fallow.core.errors import CannotRun
from fallow.readers.file_trust import Followed, Trusted

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def open_log(path: str, trusted: Trusted | None) -> int:
    """Its end. Of what root starts, only where nobody else can have put a link or a file of theirs in the way."""
    try:
        log = _plainly(path) if trusted is None else _judged(path, trusted)
    except OSError as error:
        raise CannotRun(f"the log {path} cannot be written: {error.strerror or error}") from None
    os.set_blocking(log, True)
    return log


def _plainly(path: str) -> int:
    # A pipe that nobody reads must not keep us.
    return os.open(path, _FLAGS | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)


def _judged(path: str, trusted: Trusted) -> int:
    with Followed(path, trusted) as followed:
        if followed.doubts:
            raise CannotRun(f"the log {path} is not to be trusted: {followed.doubts[0].sentence}")
        log = followed.open(_FLAGS, 0o644)
    if stat.S_ISREG(os.fstat(log).st_mode) and os.fstat(log).st_nlink > 1:
        os.close(log)
        raise CannotRun(f"the log {path} has other names too, and may be another file of theirs")
    return log


def outputs_are_anybodys() -> bool:
    """Whether another user may have our stdout and stderr: a terminal or a file of root's gives away too much."""
    try:
        modes = [os.fstat(fd).st_mode for fd in (1, 2)]
    except OSError:
        return False
    return all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)
