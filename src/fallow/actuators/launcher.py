"""The only file that starts programs."""

import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from fallow.core.errors import CannotRun, CommandNotFound


def find(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The file that the command names, looked for before anybody waits in line for it."""
    name = command[0]
    found = shutil.which(name, path=environ.get("PATH"))
    if found is not None:
        return found
    if os.sep in name and os.path.isdir(name):
        raise CannotRun(f"{name} is a folder")
    there = name if os.sep in name else shutil.which(name, mode=os.F_OK, path=environ.get("PATH"))
    if there is not None and os.path.exists(there):
        raise CannotRun(f"{there} is not executable; try: chmod +x {there}")
    raise CommandNotFound(f"there is no command {name!r}")


def become(path: str, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Be replaced by the command: same process, terminal and descriptors; nothing stands between."""
    # Python ignores these two for itself; a program expects them as they are for everybody else.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(command), dict(environ))
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise CannotRun(f"{path} is no program; does it lack a #! line?") from None
        if error.errno == errno.ENOENT:
            raise CannotRun(f"{path} names an interpreter in its #! line that is not there") from None
        raise CannotRun(f"{path} cannot be run: {error.strerror}") from None
