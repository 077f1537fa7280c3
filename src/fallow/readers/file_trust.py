"""Check whether a file can be trusted: only trusted users can have written it, or can replace it.

Each folder, each link and the file itself must belong to them, and nobody else may write there; in a sticky folder
such as /tmp others cannot touch what is not theirs. Where every step is so, nobody else can change one later either.
"""

import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence

from fallow.core.account import USUAL_PATH
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.core.value import value

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_STEPS = 400


@value
class Trusted:
    """Which users are trusted, and why no others."""

    uids: frozenset[int]
    why: str


ROOT_ALONE = Trusted(frozenset({0}), "as root fallow reads only what nobody else can change")


def doubts(path: str, trusted: Trusted = ROOT_ALONE) -> list[Mistake]:
    """Return every reason not to trust a file; of one that is missing, not to trust the folders above it."""
    found: list[Mistake] = []
    try:
        for step, facts in _steps(os.path.join(os.getcwd(), path)):
            shown = printable(step)
            if facts.st_uid not in trusted.uids:
                sentence = f"{shown} belongs to another user; {trusted.why}"
                found.append(Mistake(sentence, suggestion=f"chown -h root {shlex.quote(step)}"))
            may_be_open = stat.S_ISLNK(facts.st_mode) or stat.S_ISCHR(facts.st_mode)
            is_sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
            if facts.st_mode & _OTHERS_WRITE and not may_be_open and not is_sticky:
                sentence = f"others may write to {shown}; {trusted.why}"
                found.append(Mistake(sentence, suggestion=f"chmod go-w {shlex.quote(step)}"))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        found.append(Mistake(f"it cannot be read: {getattr(error, 'strerror', None) or error}"))
    return found


def doubts_of_program(command: Sequence[str], cwd: str | None, environ: Mapping[str, str]) -> list[Mistake]:
    """Return every reason not to run the program of a command as root: others can change it."""
    program = os.path.join(cwd or "/", command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=environ.get("PATH", USUAL_PATH))
    return [] if found is None else doubts(found)


def open_trusted(path: str, flags: int, trusted: Trusted = ROOT_ALONE, mode: int = 0o600) -> int:
    """Open or make a file of which there are no doubts; raise OSError if another user made it a moment ago."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(os.path.realpath(path), flags, mode)
    if os.fstat(fd).st_uid not in trusted.uids:
        os.close(fd)
        raise PermissionError(f"{path} belongs to another user")
    return fd


def trusted_program(link: str) -> str | None:
    """Return the name of the program that a link of the kernel leads to; None unless that file is trusted here."""
    try:
        path = os.readlink(link)
        if doubts(path) or not os.path.samestat(os.stat(path), os.stat(link)):
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
