"""Open files that only trusted users can have written, or can replace: root, and for one's own files oneself.

As sshd does with its keys: each folder, each link and the file itself must belong to them, and nobody else may write
there; in a sticky folder such as /tmp others cannot touch what is not theirs. Where every step is so, nobody else can
change one later either.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from fallow.core.account import USUAL_PATH
from fallow.core.errors import NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.shell_word import shell_word
from fallow.core.units import printable

ROOT = frozenset({0})
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_STEPS = 400


def doubt(path: str, uids: frozenset[int] = ROOT) -> Mistake | None:
    """Return the first reason not to trust a file; of one that is missing, not to trust the folders above it."""
    try:
        for step, facts in _steps(os.path.join(os.getcwd(), path)):
            if facts.st_uid not in uids:
                sentence = f"{printable(step)} belongs to another user, who could change what fallow reads or runs"
                return Mistake(sentence, suggestion=f"chown -h root {shell_word(step)}")
            may_be_open = stat.S_ISLNK(facts.st_mode) or stat.S_ISCHR(facts.st_mode)
            is_sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
            if facts.st_mode & _OTHERS_WRITE and not may_be_open and not is_sticky:
                sentence = f"others may write to {printable(step)}, and change what fallow reads or runs"
                return Mistake(sentence, suggestion=f"chmod go-w {shell_word(step)}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return Mistake(f"it cannot be read: {getattr(error, 'strerror', None) or error}")
    return None


def doubt_of_program(command: Sequence[str], cwd: str | None, environ: Mapping[str, str]) -> Mistake | None:
    """Return why not to run the program of a command as root: others can change it."""
    import shutil  # noqa: PLC0415  loaded only where root runs programs

    program = os.path.join(cwd or "/", command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=environ.get("PATH", USUAL_PATH))
    return None if found is None else doubt(found)


def open_trusted(path: str, flags: int, uids: frozenset[int] = ROOT, mode: int = 0o600) -> int:
    """Open or make a file; raise NotPermitted if there is a doubt about it, or another user made it a moment ago."""
    found = doubt(path, uids)
    if found is not None:
        raise NotPermitted(found.sentence, found.suggestion)
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(os.path.realpath(path), flags, mode)
    if os.fstat(fd).st_uid not in uids:
        os.close(fd)
        raise NotPermitted(f"{path} belongs to another user")
    return fd


def trusted_program(link: str) -> str | None:
    """Return the name of the program that a link of the kernel leads to; None unless that file is trusted here."""
    try:
        path = os.readlink(link)
        if doubt(path) is not None or not os.path.samestat(os.stat(path), os.stat(link)):
            return None
    except OSError:
        return None
    return os.path.basename(path)


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each name on the way from the root folder, with links followed as the kernel does."""
    left, here = path.split("/")[::-1], "/"
    yield here, os.lstat(here)
    for _ in range(_MOST_STEPS):
        if not left:
            return
        name = left.pop()
        if name in ("", "."):
            continue
        step = os.path.dirname(here) if name == ".." else os.path.join(here, name)
        facts = os.lstat(step)
        yield step, facts
        if stat.S_ISLNK(facts.st_mode):
            target = os.readlink(step)
            left += target.split("/")[::-1]
            here = "/" if target.startswith("/") else here
        elif left and not stat.S_ISDIR(facts.st_mode):
            raise NotADirectoryError(step)
        else:
            here = step
    raise OSError("too many links on the way")
