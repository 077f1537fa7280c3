"""Whether root may believe a file: nobody but root can have written it, or can put another in its place.

The path is followed one name at a time, links included. A folder that only root can write to cannot change under us,
so what was found safe from the top down stays so. In a sticky folder such as /tmp others cannot touch what is root's.
"""

import os
import stat
from collections.abc import Iterator

from fallow.core.mistake import Mistake
from fallow.core.units import printable

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
_WHY = "as root fallow reads only what nobody else can change"


def distrusted(path: str) -> list[Mistake]:
    """Every reason not to believe it; a path that leads nowhere is not judged here."""
    try:
        return list(_along(os.path.join(os.getcwd(), path)))
    except OSError:
        return []


def _along(path: str) -> Iterator[Mistake]:
    left = path.split("/")[::-1]
    here, links = "/", 0
    yield from _judged(here, os.lstat(here))
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        here = os.path.dirname(here) if name == ".." else os.path.join(here, name)
        found = os.lstat(here)
        yield from _judged(here, found)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return
            target = os.readlink(here)
            left += target.split("/")[::-1]
            here = "/" if target.startswith("/") else os.path.dirname(here)


def _judged(path: str, found: os.stat_result) -> Iterator[Mistake]:
    shown = printable(path)
    if found.st_uid != 0:
        yield Mistake(f"{shown} belongs to another user; {_WHY}", suggestion=f"chown -h root {shown}")
    mode = found.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return
    if mode & _OTHERS_WRITE:
        yield Mistake(f"others may write to {shown}; {_WHY}", suggestion=f"chmod go-w {shown}")
