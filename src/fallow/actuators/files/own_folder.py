"""The folder of the daemon's lock and socket, which all users may enter and only its owner can change.

A folder that another user made first, or that others may write to, is refused. Nobody else enters the folder of a
simulated machine.
"""

import os
import stat
from contextlib import suppress

from fallow.core.errors import NotPermitted

_EVERYBODY_ENTERS = 0o755
_ONLY_WE_ENTER = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_folder(folder: str) -> None:
    """Make the folder, or make sure that no other user can change it."""
    try:
        os.makedirs(folder, mode=_EVERYBODY_ENTERS, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        sentence = f"cannot use {folder} for the daemon's lock and socket: {error.strerror}"
        raise NotPermitted(sentence, "name a folder of your own with FALLOW_SOCKET") from None
    try:
        found = os.fstat(fd)
        if found.st_uid not in (0, os.geteuid()):
            raise NotPermitted(
                f"{folder}, where the daemon's lock and socket are, belongs to somebody else (user {found.st_uid});"
                " remove it, or name another place with FALLOW_SOCKET"
            )
        if found.st_mode & _OTHERS_WRITE:
            raise NotPermitted(
                f"others may write to {folder}, and could put a socket of theirs in the place of the daemon's;"
                " name a folder of your own with FALLOW_SOCKET"
            )
    finally:
        os.close(fd)


def private_folder(folder: str, way: str) -> None:
    """Make a folder that only this user enters; raise NotPermitted, with the way out, if it is not such a one."""
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError as error:
        raise NotPermitted(f"cannot make {folder}: {error.strerror}", way) from None
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or stat.S_IMODE(found.st_mode) != _ONLY_WE_ENTER
    ):
        raise NotPermitted(f"{folder} is not a folder that only this user enters (mode 0700)", way)
